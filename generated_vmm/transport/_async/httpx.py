"""A channel over a caller's httpx transport, and our own transport for httpx clients."""

from __future__ import annotations

import os

import httpx

from generated_vmm.concurrency._async import time_limit
from generated_vmm.operation import Operation
from generated_vmm.transport._async.channels import AsyncHttpxTransport
from generated_vmm.transport._async.unix import AsyncUnixChannel
from generated_vmm.transport.calls import closed, deadline_after
from generated_vmm.transport.http import DEFAULT_MAX_ANSWER_BYTES, require_path
from generated_vmm.transport.httpx_values import (
    Body,
    ReadAnswer,
    bytes_of,
    failures_as_httpx_has_them,
    failures_of_a_transport,
    request_for,
    response_from,
    seconds_for,
)


class AsyncHttpxChannel:
    """Sends operations through the caller's transport.

    The transport limits the time of each step. This class limits the time of the whole call, which
    it checks between the parts of a response. Errors of the transport become `CallFailed`.
    """

    def __init__(self, transport: AsyncHttpxTransport, max_answer_bytes: int) -> None:
        self._transport = transport
        self._max_answer_bytes = max_answer_bytes
        self._closed = False

    async def exchange(self, operation: Operation[object], seconds: float | None) -> ReadAnswer:
        """The response to the operation; see `AsyncUnixChannel.exchange`."""
        if self._closed:
            raise closed()
        require_path(operation.path)  # ValueError, as with our own sockets
        body = Body(self._max_answer_bytes, deadline_after(seconds))
        with failures_of_a_transport():
            request = request_for(self._transport, operation, seconds)
            async with time_limit(seconds):
                response = await self._transport.handle_async_request(request)
                try:
                    async for part in response.aiter_bytes():
                        body.add(part)
                finally:
                    await response.aclose()
                return body.of(response)

    async def close(self) -> None:
        """Closes the transport; later calls fail."""
        self._closed = True
        with failures_of_a_transport():
            await self._transport.aclose()


class AsyncUnixTransport(httpx.AsyncBaseTransport):
    """Sends requests to a unix socket as `AsyncVmmClient` does; raises httpx's transport errors.

    The request's `read` timeout, in seconds, limits the whole call, waiting for other calls
    included. `max_answer_bytes` limits a response with its headers.
    """

    def __init__(
        self,
        socket_path: str | os.PathLike[str],
        *,
        max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES,
    ) -> None:
        self._channel = AsyncUnixChannel(os.fspath(socket_path), max_answer_bytes)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response to the request, with its body."""
        content = bytes_of(request, await request.aread())
        with failures_as_httpx_has_them():
            return response_from(await self._channel.converse(content, seconds_for(request)))

    async def aclose(self) -> None:
        """Closes the connection once the current call has ended; later calls fail."""
        await self._channel.close()
