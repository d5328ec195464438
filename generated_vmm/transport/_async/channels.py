"""The interfaces through which a client sends operations to its monitor."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from generated_vmm.operation import Operation
from generated_vmm.transport.calls import HttpAnswer


@runtime_checkable
class AsyncChannel(Protocol):
    """A channel to one monitor."""

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The response to the operation within `timeout` seconds; raises `CallFailed`."""

    async def close(self) -> None:
        """Closes the channel; later calls fail. Raises `CallFailed`."""


class AsyncHttpxTransport(Protocol):
    """A transport of httpx or httpx2."""

    async def handle_async_request(self, request: Any, /) -> Any:
        """The response to a request of the same library."""

    async def aclose(self) -> None:
        """Closes the transport."""
