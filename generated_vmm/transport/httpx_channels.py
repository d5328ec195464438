"""Any httpx transport as the way to a monitor, its answers limited and its errors made ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from generated_vmm.errors import VmmError
from generated_vmm.operation import Operation
from generated_vmm.transport.failure import CallFailed, closed, late, lost, unreachable, unreadable
from generated_vmm.transport.wire import deadline_after, require_path


class HttpxChannel:
    """Sends operations through a transport that the caller gave.

    How long one step may take is the transport's to keep; between the parts of an answer the time
    of the whole call is kept here. Whatever the transport raises becomes a `CallFailed`.
    """

    def __init__(self, transport: httpx.BaseTransport, max_answer_bytes: int) -> None:
        self._transport = transport
        self._max_answer_bytes = max_answer_bytes
        self._closed = False

    def exchange(self, operation: Operation[object], seconds: float | None) -> ReadAnswer:
        """The answer to the operation; see `UnixChannel.exchange`."""
        if self._closed:
            raise closed()
        require_path(operation.path)  # ValueError as for a socket of ours
        body = _Body(self._max_answer_bytes, deadline_after(seconds))
        with failures_of_a_transport():
            request = request_for(operation, seconds)
            response = self._transport.handle_request(request)
            try:
                for part in response.iter_bytes():
                    body.add(part)
            finally:
                response.close()
            return body.of(response)

    def close(self) -> None:
        """Closes the transport; later calls are refused."""
        self._closed = True
        with failures_of_a_transport():
            self._transport.close()


class AsyncHttpxChannel:
    """Sends operations through an async transport that the caller gave; see `HttpxChannel`."""

    def __init__(self, transport: httpx.AsyncBaseTransport, max_answer_bytes: int) -> None:
        self._transport = transport
        self._max_answer_bytes = max_answer_bytes
        self._closed = False

    async def exchange(self, operation: Operation[object], seconds: float | None) -> ReadAnswer:
        """The answer to the operation; see `AsyncUnixChannel.exchange`."""
        if self._closed:
            raise closed()
        require_path(operation.path)  # ValueError as for a socket of ours
        body = _Body(self._max_answer_bytes, deadline_after(seconds))
        with failures_of_a_transport():
            request = request_for(operation, seconds)
            async with asyncio.timeout(seconds):
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


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """An answer of the monitor, its body read."""

    status_code: int
    headers: list[tuple[bytes, bytes]]
    content: bytes


class _Body:
    """The parts of a body as they come."""

    def __init__(self, max_bytes: int, deadline: float) -> None:
        self._max_bytes = max_bytes
        self._deadline = deadline
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: bytes) -> None:
        """Takes the next part; raises `CallFailed` when it is one too many or too late."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._max_bytes:
            raise unreadable(f"the answer is larger than {self._max_bytes} bytes")
        if time.monotonic() >= self._deadline:
            raise late("the answer did not come", sent=True)

    def of(self, response: httpx.Response) -> ReadAnswer:
        """The answer that the body belongs to."""
        headers = [(name.lower(), value) for name, value in response.headers.raw]
        return ReadAnswer(response.status_code, headers, b"".join(self._parts))


def request_for(operation: Operation[object], seconds: float | None) -> httpx.Request:
    """The operation as httpx has it."""
    headers = {"Content-Type": "application/json"} if operation.body else {}
    timeout = {"connect": seconds, "read": seconds, "write": seconds, "pool": seconds}
    return httpx.Request(
        operation.method,
        f"http://localhost{operation.path}",
        headers=headers,
        content=operation.body or None,
        extensions={"timeout": timeout},
    )


@contextmanager
def failures_of_a_transport() -> Iterator[None]:
    """Whatever a transport raises in this block is a `CallFailed`, with it as the cause."""
    try:
        yield
    except (CallFailed, VmmError):  # the second by a transport that is made for our clients
        raise
    except Exception as error:
        raise failure_of(error) from error


def failure_of(error: Exception) -> CallFailed:
    """What an error of a transport means; any other library's may come out of one."""
    match error:
        case httpx.PoolTimeout() | httpx.ConnectTimeout():
            return late(error, sent=False)
        case httpx.TimeoutException():
            return late(error, sent=True)
        case TimeoutError():
            return late("the answer did not come", sent=True)
        case httpx.ConnectError():
            return unreachable(error)
        case httpx.NetworkError() | httpx.ProxyError() | OSError():
            return lost(error)
        case httpx.TransportError():
            return unreadable(error)
        case _:
            return unreadable(f"the transport raised {type(error).__name__}: {error}")
