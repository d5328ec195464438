"""The interfaces through which a client sends operations to its monitor."""

from __future__ import annotations

from typing import Protocol

from generated_vmm.operation import Operation
from generated_vmm.transport.calls import HttpAnswer


class AsyncChannel(Protocol):
    """A channel to one monitor."""

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The response to the operation within `timeout` seconds; raises `CallFailed`."""

    async def close(self) -> None:
        """Closes the channel; later calls fail."""
