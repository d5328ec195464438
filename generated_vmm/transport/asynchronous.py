"""The transport of the async client, on asyncio: the same calls over one kept connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

import httpx

from generated_vmm.transport.connection import is_quiet
from generated_vmm.transport.parser import AnswerParser
from generated_vmm.transport.wire import (
    DEFAULT_MAX_ANSWER_BYTES,
    RECEIVE_BYTES,
    allowed_seconds,
    may_be_kept,
    request_bytes,
    response_from,
)

FULL_QUEUE_PAUSE = 0.01  # seconds until another attempt to join the queue of a busy listener


class AsyncUnixTransport(httpx.AsyncBaseTransport):
    """Sends requests to a unix socket, one at a time, over a connection that is kept open.

    As `UnixTransport`, for the tasks of one event loop at a time. A call that is cancelled or
    late closes the connection, so that its answer never reaches another call.
    """

    def __init__(
        self,
        socket_path: str | os.PathLike[str],
        *,
        max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES,
    ) -> None:
        self._path = os.fspath(socket_path)
        self._max_answer_bytes = max_answer_bytes
        self._turn = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept: socket.socket | None = None
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer to the request, its body read."""
        late: type[httpx.TimeoutException] = httpx.PoolTimeout
        what = "another call held the connection"
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(allowed_seconds(request)), self._turn_in(loop):
                late, what = httpx.ConnectTimeout, "nobody accepted the connection"
                connection = self._take() or await self._connect()
                late, what = httpx.ReadTimeout, "the answer did not come"
                return await self._exchange(connection, request_bytes(request))
        except TimeoutError as error:
            raise late(what) from error

    def _turn_in(self, loop: asyncio.AbstractEventLoop) -> asyncio.Lock:
        """The lock of this loop: a lock belongs to one loop, a client may outlive it."""
        if loop is not self._loop:
            self._loop, self._turn = loop, asyncio.Lock()
        return self._turn

    async def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            while not _is_connected(connection, self._path):  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(FULL_QUEUE_PAUSE)
        except (OSError, ValueError) as error:
            connection.close()
            raise httpx.ConnectError(str(error)) from error
        except BaseException:
            connection.close()
            raise
        return connection

    async def _exchange(self, connection: socket.socket, request: bytes) -> httpx.Response:
        keep = False
        try:
            answer = AnswerParser(self._max_answer_bytes)
            await self._converse(connection, request, answer)
            keep = may_be_kept(answer) and not self._closed
        except OSError as error:
            raise httpx.ReadError(str(error)) from error
        finally:
            if keep:
                self._kept = connection
            else:
                connection.close()
        return response_from(answer)

    async def _converse(
        self, connection: socket.socket, request: bytes, answer: AnswerParser
    ) -> None:
        """Sends the request, or what the peer takes of it, and reads until the answer is whole."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):  # it may answer, hang up and not read on
            await loop.sock_sendall(connection, request)
        while received := await loop.sock_recv(connection, RECEIVE_BYTES):
            if answer.feed(received):
                return
        answer.end()

    def _take(self) -> socket.socket | None:
        """The kept connection when it is usable; it is nobody's until it is kept again."""
        if self._closed:
            raise httpx.ConnectError("the client is closed")
        kept, self._kept = self._kept, None
        if kept is None or is_quiet(kept):
            return kept
        kept.close()
        return None

    async def aclose(self) -> None:
        """Closes the connection; a call that uses it ends first, later calls are refused."""
        self._closed = True
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def _is_connected(connection: socket.socket, path: str) -> bool:
    """Connects a non-blocking unix socket, which succeeds or fails at once; false: try again.

    The loop's `sock_connect` is for sockets that report their success later, these do not.
    """
    try:
        connection.connect(path)
    except BlockingIOError:
        return False
    return True
