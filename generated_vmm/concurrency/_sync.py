"""Waiting as a thread. Deadlines are values of `time.monotonic()`.

All waiting for sockets is in `poll`, which Python resumes with the time that is left after a
signal (PEP 475); a limit of the kernel's own (SO_RCVTIMEO) would begin anew.
"""

from __future__ import annotations

import queue
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")
Stream: TypeAlias = socket.socket

LONGEST_WAIT = 1_000_000.0  # seconds in one system call: poll(2) takes milliseconds as an int

sleep = time.sleep
Interruption = BaseException
"""What ends a wait before its time: whatever a signal handler raises."""


class Context:
    """Base of an object for `with`: in the block of a task it says so."""

    __slots__ = ()

    if not TYPE_CHECKING:  # which reports `async with` itself

        def __aenter__(self):
            """Raises TypeError."""
            name = type(self).__name__
            raise TypeError(f"{name} needs `with`, and its calls no `await`; or use Async{name}")

        def __aexit__(self, *_):
            """For `async with`, which looks for both."""


class Lock:
    """For one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, deadline: float) -> threading.Lock | None:
        """The lock, to be released by `release()`, or None when the deadline came first."""
        if self._lock.acquire(blocking=False):
            return self._lock
        seconds = min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)
        return self._lock if self._lock.acquire(timeout=seconds) else None


class Wakeup:
    """Ends a wait of the thread that made it; any thread or signal handler may call it."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()  # reentrant, for handlers

    def __call__(self) -> None:
        self._calls.put(None)

    def wait(self, deadline: float) -> bool:
        """Whether it was called before the deadline, since the last wait."""
        seconds = min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)
        try:
            self._calls.get(timeout=seconds)
        except queue.Empty:
            return False
        return True


def in_thread(
    function: Callable[Given, Result], *given: Given.args, **named: Given.kwargs
) -> Result:
    """What `function` returns; a thread calls it itself."""
    return function(*given, **named)


finished = in_thread
"""What `function` returns."""


def stops_event_loop() -> bool:
    """Whether this thread runs an event loop, which stands still while the thread waits."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def readable(connection: socket.socket | int, deadline: float) -> bool:
    """Whether there was something to receive, the end included, before the deadline."""
    return _ready(connection, select.POLLIN, deadline)


def writable(connection: socket.socket, deadline: float) -> bool:
    """Whether there was room to send before the deadline."""
    return _ready(connection, select.POLLOUT, deadline)


def stream_of(connection: socket.socket) -> Stream:
    """A connected socket as the caller uses it from now on."""
    connection.setblocking(True)
    return connection


def _ready(connection: socket.socket | int, event: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(connection, event)
    while (left := deadline - time.monotonic()) > 0:
        if poll.poll(min(left, LONGEST_WAIT) * 1_000):
            return True
    return False
