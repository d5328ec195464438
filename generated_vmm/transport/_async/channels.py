"""What a client needs of the way to its monitor."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from generated_vmm.operation import Operation
from generated_vmm.transport.calls import HttpAnswer


@runtime_checkable
class AsyncChannel(Protocol):
    """One way to one monitor."""

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The answer to the operation within so many seconds; raises `CallFailed`."""

    async def close(self) -> None:
        """Ends the way; later calls are refused. Raises `CallFailed`."""


class AsyncHttpxTransport(Protocol):
    """A transport of httpx's or httpx2's."""

    async def handle_async_request(self, request: Any, /) -> Any:
        """The response to a request of the same library."""

    async def aclose(self) -> None:
        """Ends the transport."""
