"""httpx's transports: one that was given as the way to a monitor, and ours for others to wrap."""

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
    """Sends operations through a transport that the caller gave.

    How long one step may take is the transport's to keep; between the parts of an answer the time
    of the whole call is kept here. Whatever the transport raises becomes a `CallFailed`.
    """

    def __init__(self, transport: AsyncHttpxTransport, max_answer_bytes: int) -> None:
        self._transport = transport
        self._max_answer_bytes = max_answer_bytes
        self._closed = False

    async def exchange(self, operation: Operation[object], seconds: float | None) -> ReadAnswer:
        """The answer to the operation; see `AsyncUnixChannel.exchange`."""
        if self._closed:
            raise closed()
        require_path(operation.path)  # ValueError as for a socket of ours
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
        """Closes the transport; later calls are refused."""
        self._closed = True
        with failures_of_a_transport():
            await self._transport.aclose()


class AsyncUnixTransport(httpx.AsyncBaseTransport):
    """Sends requests to a unix socket as `AsyncVmmClient` does; raises httpx's transport errors.

    The request's `read` timeout limits the whole call, in seconds, waiting for other calls
    included. `max_answer_bytes` limits an answer with its headers.
    """

    def __init__(
        self,
        socket_path: str | os.PathLike[str],
        *,
        max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES,
    ) -> None:
        self._channel = AsyncUnixChannel(os.fspath(socket_path), max_answer_bytes)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer to the request, its body read."""
        content = bytes_of(request, await request.aread())
        with failures_as_httpx_has_them():
            return response_from(await self._channel.converse(content, seconds_for(request)))

    async def aclose(self) -> None:
        """Closes the connection; a call that uses it ends first, later calls are refused."""
        await self._channel.close()
