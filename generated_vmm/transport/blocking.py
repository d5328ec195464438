"""The sync way to a monitor: calls over one kept unix-socket connection.

The socket never blocks. All waiting is in `poll`, which Python resumes with the time that is left
after a signal; a limit of the kernel's own (SO_RCVTIMEO) would begin anew.
"""

from __future__ import annotations

import select
import threading
import time

from generated_vmm.operation import Operation
from generated_vmm.transport.connection import FULL_QUEUE_PAUSE, Address, Connection, Line
from generated_vmm.transport.failure import closed, late, lost
from generated_vmm.transport.forks import start_over_in_children
from generated_vmm.transport.parser import AnswerParser
from generated_vmm.transport.wire import (
    DEFAULT_MAX_ANSWER_BYTES,
    RECEIVE_BYTES,
    HttpAnswer,
    deadline_after,
    request_bytes,
)

LONGEST_WAIT = 1_000_000.0  # seconds in one system call: poll(2) takes milliseconds as an int


class UnixChannel:
    """Sends operations to a unix socket, one at a time, over a connection that is kept open.

    An operation is sent at most once. `max_answer_bytes` limits an answer with its headers. Safe
    to share between threads; a forked child makes a connection of its own.
    """

    def __init__(self, address: Address, max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES) -> None:
        self._address = address
        self._max_answer_bytes = max_answer_bytes
        self._line = Line(threading.Lock())
        self._closed = False
        start_over_in_children(self)

    def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The answer to the operation within so many seconds, waiting for other threads included.

        Raises `CallFailed`, ValueError for an operation that cannot be asked for.
        """
        return self.converse(request_bytes(operation), seconds)

    def converse(self, request: bytes, seconds: float | None) -> AnswerParser:
        """`exchange` for a request as it goes over the wire."""
        deadline = deadline_after(seconds)
        line = self._line
        if not line.turn.acquire(timeout=-1 if seconds is None else seconds):
            raise late("another call held the connection", sent=False)
        try:
            return self._converse(line, request, deadline)
        finally:
            line.turn.release()
            if self._closed:
                self._close_unless_used(line)

    def _converse(
        self, line: Line[threading.Lock], request: bytes, deadline: float
    ) -> AnswerParser:
        if self._closed:
            raise closed()
        connection, keep = line.take(), False
        try:
            open_until(deadline, connection, self._address)
            send(connection, request, deadline)
            answer = AnswerParser(self._max_answer_bytes)
            while not answer.feed(receive(connection, deadline)):
                pass
            keep = answer.reusable and not self._closed
            return answer
        finally:
            line.put_back(connection, keep=keep)

    def start_over(self) -> None:
        """Leaves connection and lock to the process that this one was forked from."""
        self._line.abandon()
        self._line = Line(threading.Lock())

    def close(self) -> None:
        """Closes the connection; a call that uses it ends first, later calls are refused.

        It does not wait for that call: a signal handler may close in the middle of it.
        """
        self._closed = True
        self._close_unless_used(self._line)

    def _close_unless_used(self, line: Line[threading.Lock]) -> None:
        """Closes the kept connection, unless a call holds the turn, which does it at its end."""
        if line.turn.acquire(blocking=False):
            try:
                line.close()
            finally:
                line.turn.release()


def open_until(deadline: float, connection: Connection, address: Address) -> None:
    """Connects unless that is done; deadlines are values of `time.monotonic()`."""
    while not (connection.is_open or connection.open(address)):
        left = deadline - time.monotonic()
        if left <= 0:
            raise late("nobody accepted the connection", sent=False)
        time.sleep(min(left, FULL_QUEUE_PAUSE))


def send(connection: Connection, content: bytes, deadline: float) -> None:
    """Sends all of it, or what the peer takes: it may answer, hang up and not read on."""
    rest = memoryview(content)
    while rest:
        try:
            rest = rest[connection.socket.send(rest) :]
        except BlockingIOError:
            room = select.poll()
            room.register(connection.socket, select.POLLOUT)
            if not waited(room, deadline):
                raise late("the monitor did not take the whole request", sent=True) from None
        except ConnectionError:
            return  # whether an answer was sent before tells what became of the request
        except OSError as error:
            raise lost(error) from error


def receive(connection: Connection, deadline: float) -> bytes:
    """What came next; empty at the end of the stream."""
    if not waited(connection.arrivals, deadline):
        raise late("the answer did not come", sent=True)
    try:
        return connection.socket.recv(RECEIVE_BYTES)
    except OSError as error:
        raise lost(error) from error


def waited(poll: select.poll, deadline: float) -> bool:
    """Whether what `poll` waits for came before the deadline."""
    while (left := deadline - time.monotonic()) > 0:
        if poll.poll(min(left, LONGEST_WAIT) * 1_000):
            return True
    return False
