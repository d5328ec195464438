"""What a client needs of the way to its monitor, and which way it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from generated_vmm.operation import Operation
from generated_vmm.transport._async.unix import AsyncUnixChannel
from generated_vmm.transport.calls import HttpAnswer

if TYPE_CHECKING:
    import httpx


@runtime_checkable
class AsyncChannel(Protocol):
    """One way to one monitor."""

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The answer to the operation within so many seconds; raises `CallFailed`."""

    async def close(self) -> None:
        """Ends the way; later calls are refused. Raises `CallFailed`."""


def async_channel_to(
    socket_path: str,
    max_answer_bytes: int,
    transport: httpx.AsyncBaseTransport | AsyncChannel | None,
) -> AsyncChannel:
    """The way that was given, as it is or through httpx's transport, else straight to the socket.

    httpx takes longer to import than everything here, and only a program that gives one of its
    transports needs it.
    """
    if transport is None:
        return AsyncUnixChannel(socket_path, max_answer_bytes)
    if isinstance(transport, AsyncChannel):
        return transport
    from generated_vmm.transport._async.httpx import AsyncHttpxChannel

    return AsyncHttpxChannel(transport, max_answer_bytes)
