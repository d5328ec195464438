"""Calls over unix-socket connections, of which each call has its own."""

from __future__ import annotations

import socket
import time
from functools import partial
from typing import Protocol

from generated_vmm.concurrency._async import Lock, readable, sleep, stops_event_loop, writable
from generated_vmm.misuse import warn_of_stopped_loop
from generated_vmm.operation import Operation
from generated_vmm.transport.calls import (
    CLOSED,
    HttpAnswer,
    deadline_after,
    late,
    lost,
    unreachable,
)
from generated_vmm.transport.connection import (
    Connect,
    connect_to,
    hang_up,
    start_over_in_children,
)
from generated_vmm.transport.http import (
    DEFAULT_MAX_ANSWER_BYTES,
    RECEIVE_BYTES,
    AnswerParser,
    request_bytes,
)

FULL_QUEUE_PAUSE = 0.01  # seconds between attempts to join the queue of a busy listener


class AsyncChannel(Protocol):
    """A channel to one monitor."""

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The response to the operation within `seconds`; raises `CallFailed`."""

    async def close(self) -> None:
        """Closes the channel; later calls fail."""


class AsyncUnixChannel:
    """Sends operations to a unix socket, one at a time, each over a connection of its own.

    So a response never reaches another call. An operation is sent at most once. `max_answer_bytes`
    limits a response with its headers. Tasks of one event loop may share a channel. `connect`
    replaces the connecting of a socket to `socket_path`.
    """

    def __init__(
        self,
        socket_path: str,
        max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES,
        connect: Connect | None = None,
    ) -> None:
        self._connect = connect or partial(connect_to, socket_path)
        self._max_answer_bytes = max_answer_bytes
        self._lock = Lock()
        self._is_closed = False
        start_over_in_children(self)

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The response to the operation within `seconds`, waiting for other calls included.

        Raises `CallFailed`, and ValueError for an operation whose path cannot be requested.
        """
        request, deadline = request_bytes(operation), deadline_after(seconds)
        held = await self._lock.acquire(deadline)
        if held is None:
            raise late("another call did not end", sent=False)
        try:
            if self._is_closed:
                raise unreachable(CLOSED, permanent=True)
            connection = await opened(self._connect, deadline)
            try:
                return await answered(connection, request, deadline, self._max_answer_bytes)
            finally:
                hang_up(connection)
        finally:
            held.release()

    def start_over(self) -> None:
        """Leaves the lock to the process that this one was forked from."""
        self._lock = Lock()

    async def close(self) -> None:
        """Later calls fail. It does not wait for the current call."""
        self._is_closed = True


async def opened(connect: Connect, deadline: float) -> socket.socket:
    """A connection, which never blocks. Raises `CallFailed`.

    No event says when there is room in the queue of a busy listener.
    """
    try:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.setblocking(False)
            while True:
                try:
                    connect(connection)
                    return connection
                except BlockingIOError:
                    if (left := deadline - time.monotonic()) <= 0:
                        raise late("the connection was not accepted", sent=False) from None
                    await sleep(min(left, FULL_QUEUE_PAUSE))
        except BaseException:
            connection.close()
            raise
    except OSError as error:
        raise unreachable(error) from error


async def answered(
    connection: socket.socket, request: bytes, deadline: float, max_answer_bytes: int
) -> AnswerParser:
    """Sends the request, or as much as the peer reads, and returns the response.

    Raises `CallFailed`.
    """
    answer = AnswerParser(max_answer_bytes)
    what = "the monitor did not take the whole request"
    try:
        await send(connection, request, deadline)
        what = "the response did not come"
        while not answer.feed(await receive(connection, deadline)):
            pass
    except TimeoutError:
        raise late(what, sent=True) from None
    except OSError as error:
        raise lost(error) from error
    return answer


async def send(connection: socket.socket, content: bytes, deadline: float) -> None:
    """Sends all bytes, or as many as the peer reads: it may respond and hang up early.

    Raises TimeoutError at the deadline, OSError.
    """
    if stops_event_loop():
        warn_of_stopped_loop()
    rest = memoryview(content)
    while rest:
        try:
            rest = rest[connection.send(rest) :]
        except BlockingIOError:
            if not await writable(connection, deadline):
                raise TimeoutError from None
        except ConnectionError:
            return  # a response that was sent before says what became of the request


async def receive(connection: socket.socket, deadline: float, most: int = RECEIVE_BYTES) -> bytes:
    """The next bytes; empty at the end of the stream. Raises TimeoutError, OSError.

    It waits before it reads: a response is never there immediately.
    """
    while await readable(connection, deadline):
        try:
            return connection.recv(most)
        except BlockingIOError:
            pass
    raise TimeoutError
