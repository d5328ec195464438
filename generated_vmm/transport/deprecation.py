"""Telling the caller, at the caller's line, that the monitor calls something deprecated."""

from __future__ import annotations

import sys
import warnings

from generated_vmm.errors import VmmDeprecationWarning
from generated_vmm.operation import Operation
from generated_vmm.transport.wire import HttpAnswer

DEPRECATED = (b"deprecation", b"true")
PACKAGE = __name__.partition(".")[0] + "."


def is_deprecated(answer: HttpAnswer) -> bool:
    """Whether the monitor says `Deprecation: true`."""
    return DEPRECATED in answer.headers


def warn_of_deprecation(operation: Operation[object]) -> None:
    """A VmmDeprecationWarning that points at the line that called the client."""
    message = f"{operation}: the monitor says that this call uses something deprecated"
    warnings.warn(message, VmmDeprecationWarning, stacklevel=_levels_to_caller())


def _levels_to_caller() -> int:
    """The stacklevel for `warnings.warn` in the function above: the first frame outside of us."""
    levels = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        levels += 1
    return levels


def _is_ours(module: str) -> bool:
    return module.startswith(PACKAGE)
