"""The async way to a monitor, on asyncio: the same calls over one kept connection."""

from __future__ import annotations

import asyncio
import contextlib

from generated_vmm.operation import Operation
from generated_vmm.transport.connection import FULL_QUEUE_PAUSE, Address, Connection, Line
from generated_vmm.transport.failure import closed, late, lost
from generated_vmm.transport.forks import start_over_in_children
from generated_vmm.transport.parser import AnswerParser
from generated_vmm.transport.wire import (
    DEFAULT_MAX_ANSWER_BYTES,
    RECEIVE_BYTES,
    HttpAnswer,
    request_bytes,
)


class AsyncUnixChannel:
    """Sends operations to a unix socket, one at a time, over a connection that is kept open.

    As `UnixChannel`, for the tasks of one event loop at a time. A call that is cancelled or late
    closes the connection, so that its answer never reaches another call.
    """

    def __init__(self, address: Address, max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES) -> None:
        self._address = address
        self._max_answer_bytes = max_answer_bytes
        self._loop: asyncio.AbstractEventLoop | None = None
        self._line = Line(asyncio.Lock())
        self._closed = False
        start_over_in_children(self)

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The answer to the operation within so many seconds, waiting for other tasks included.

        Raises `CallFailed`, ValueError for an operation that cannot be asked for.
        """
        return await self.converse(request_bytes(operation), seconds)

    async def converse(self, request: bytes, seconds: float | None) -> AnswerParser:
        """`exchange` for a request as it goes over the wire."""
        what, sent = "another call held the connection", False
        line = self._line_in(asyncio.get_running_loop())
        try:
            async with asyncio.timeout(seconds), line.turn:
                if self._closed:
                    raise closed()
                what, keep = "nobody accepted the connection", False
                connection = line.take()
                try:
                    await open_in_time(connection, self._address)
                    what, sent = "the answer did not come", True
                    answer = await exchanged(connection, request, self._max_answer_bytes)
                    keep = answer.reusable and not self._closed
                    return answer
                finally:
                    line.put_back(connection, keep=keep)
        except TimeoutError as error:
            raise late(what, sent=sent) from error

    def _line_in(self, loop: asyncio.AbstractEventLoop) -> Line[asyncio.Lock]:
        """The line with a lock of this loop: a client may outlive the loop that a lock is for."""
        if loop is not self._loop:
            self._loop, self._line.turn = loop, asyncio.Lock()
        return self._line

    def start_over(self) -> None:
        """Leaves connection and lock to the process that this one was forked from."""
        self._line.abandon()
        self._line = Line(asyncio.Lock())

    async def close(self) -> None:
        """Closes the connection; a call that uses it ends first, later calls are refused."""
        self._closed = True
        self._line.close()


async def open_in_time(connection: Connection, address: Address) -> None:
    """Connects unless that is done; the caller keeps the time."""
    while not (connection.is_open or connection.open(address)):  # noqa: ASYNC110  # no event tells
        await asyncio.sleep(FULL_QUEUE_PAUSE)


async def exchanged(connection: Connection, request: bytes, max_answer_bytes: int) -> AnswerParser:
    """The answer to a request of which the peer is sent what it takes."""
    loop = asyncio.get_running_loop()
    answer = AnswerParser(max_answer_bytes)
    try:
        with contextlib.suppress(ConnectionError):  # it may answer, hang up and not read on
            await loop.sock_sendall(connection.socket, request)
        while not answer.feed(await loop.sock_recv(connection.socket, RECEIVE_BYTES)):
            pass
    except OSError as error:
        raise lost(error) from error
    return answer
