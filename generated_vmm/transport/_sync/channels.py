# Derived from `generated_vmm/transport/_async/channels.py` by `make codegen`. Do not edit.
"""The interfaces through which a client sends operations to its monitor."""

from __future__ import annotations

from typing import Protocol

from generated_vmm.operation import Operation
from generated_vmm.transport.calls import HttpAnswer


class Channel(Protocol):
    """A channel to one monitor."""

    def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The response to the operation within `timeout` seconds; raises `CallFailed`."""

    def close(self) -> None:
        """Closes the channel; later calls fail."""
