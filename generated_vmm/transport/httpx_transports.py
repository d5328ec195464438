"""Our way to a monitor as httpx transports, for transports that wrap it, to log or to count."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from generated_vmm.errors import VmmConnectionError, VmmError, VmmTimeoutError
from generated_vmm.transport.asynchronous import AsyncUnixChannel
from generated_vmm.transport.blocking import UnixChannel
from generated_vmm.transport.failure import CallFailed
from generated_vmm.transport.wire import DEFAULT_MAX_ANSWER_BYTES, HttpAnswer

ERRORS: dict[tuple[type[VmmError], bool], type[httpx.TransportError]] = {
    (VmmTimeoutError, False): httpx.ConnectTimeout,
    (VmmTimeoutError, True): httpx.ReadTimeout,
    (VmmConnectionError, False): httpx.ConnectError,
    (VmmConnectionError, True): httpx.ReadError,
}


class UnixTransport(httpx.BaseTransport):
    """Sends requests to a unix socket as `VmmClient` does; raises httpx's transport errors.

    The request's `read` timeout limits the whole call, in seconds, waiting for other threads
    included. `max_answer_bytes` limits an answer with its headers.
    """

    def __init__(
        self,
        socket_path: str | os.PathLike[str],
        *,
        max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES,
    ) -> None:
        self._channel = UnixChannel(os.fspath(socket_path), max_answer_bytes)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer to the request, its body read."""
        content = bytes_of(request, request.read())
        with failures_as_httpx_has_them():
            return response_from(self._channel.converse(content, allowed_seconds(request)))

    def close(self) -> None:
        """Closes the connection; a call that uses it ends first, later calls are refused."""
        self._channel.close()


class AsyncUnixTransport(httpx.AsyncBaseTransport):
    """Sends requests to a unix socket as `AsyncVmmClient` does; see `UnixTransport`."""

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
            return response_from(await self._channel.converse(content, allowed_seconds(request)))

    async def aclose(self) -> None:
        """Closes the connection; a call that uses it ends first, later calls are refused."""
        await self._channel.close()


@contextmanager
def failures_as_httpx_has_them() -> Iterator[None]:
    """A call without an answer raises httpx's transport error."""
    try:
        yield
    except CallFailed as failed:
        error = ERRORS.get((failed.kind, failed.sent), httpx.RemoteProtocolError)
        raise error(failed.reason) from failed.__cause__


def allowed_seconds(request: httpx.Request) -> float | None:
    """How long the whole call may take: httpx's `read` timeout, here a total; None for no limit."""
    timeout: dict[str, float | None] = request.extensions.get("timeout", {})
    return timeout.get("read")


def bytes_of(request: httpx.Request, body: bytes) -> bytes:
    """The request as HTTP/1.1 writes it."""
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%b: %b" % header for header in request.headers.raw]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def response_from(answer: HttpAnswer) -> httpx.Response:
    """The answer as httpx has it."""
    return httpx.Response(
        answer.status_code, headers=answer.headers, stream=httpx.ByteStream(answer.content)
    )
