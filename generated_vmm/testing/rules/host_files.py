"""Host files a request body names, opened as the monitor would; its words when it cannot."""

from __future__ import annotations

import os
from pathlib import Path

from generated_vmm.testing.machine import Fault, MonitorOptions


def require_file(
    options: MonitorOptions, path: str, refusal: str, *, writable: bool = False
) -> None:
    """Refuse a path that cannot be opened; `{}` in the refusal stands for the system's reason."""
    if not options.check_files:
        return
    try:
        os.close(os.open(path, os.O_RDWR if writable else os.O_RDONLY))
    except OSError as error:
        raise Fault(refusal.format(system_reason(error))) from None


def create_file(options: MonitorOptions, path: str, refusal: str) -> None:
    """Make sure that a file the monitor writes to exists."""
    if not options.check_files:
        return
    try:
        Path(path).open("ab").close()
    except OSError as error:
        raise Fault(refusal.format(system_reason(error))) from None


def literal(path: str) -> str:
    """A path to be put into a refusal as it is, whatever braces it has."""
    return path.replace("{", "{{").replace("}", "}}")


def system_reason(error: OSError) -> str:
    """An operating system error as Rust prints it."""
    return f"{os.strerror(error.errno or 0)} (os error {error.errno or 0})"
