"""What a client needs of the way to its monitor, and which way it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from generated_vmm.operation import Operation
from generated_vmm.transport.blocking import UnixChannel
from generated_vmm.transport.wire import HttpAnswer

if TYPE_CHECKING:
    import httpx


class Channel(Protocol):
    """One way to one monitor."""

    def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The answer to the operation within so many seconds; raises `CallFailed`."""

    def close(self) -> None:
        """Ends the way; later calls are refused."""


class AsyncChannel(Protocol):
    """One way to one monitor, awaited."""

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The answer to the operation within so many seconds; raises `CallFailed`."""

    async def close(self) -> None:
        """Ends the way; later calls are refused."""


def channel_to(
    socket_path: str, max_answer_bytes: int, transport: httpx.BaseTransport | None
) -> Channel:
    """The way through the transport, else straight to the socket.

    httpx takes longer to import than everything here, and only a program that gives one of its
    transports needs it.
    """
    if transport is None:
        return UnixChannel(socket_path, max_answer_bytes)
    from generated_vmm.transport.httpx_channels import HttpxChannel

    return HttpxChannel(transport, max_answer_bytes)


def async_channel_to(
    socket_path: str, max_answer_bytes: int, transport: httpx.AsyncBaseTransport | None
) -> AsyncChannel:
    """The way through the transport, else straight to the socket; see `channel_to`."""
    if transport is None:
        from generated_vmm.transport.asynchronous import AsyncUnixChannel

        return AsyncUnixChannel(socket_path, max_answer_bytes)
    from generated_vmm.transport.httpx_channels import AsyncHttpxChannel

    return AsyncHttpxChannel(transport, max_answer_bytes)
