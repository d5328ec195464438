"""A unix-socket connection that never blocks, and the paths that one can have."""

from __future__ import annotations

import os
import select
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeAlias, TypeVar
from weakref import WeakSet

from generated_vmm.transport.calls import ENDED, unreachable

LONGEST_PATH = 107  # bytes, unix(7): 108 with the NUL behind them
FULL_QUEUE_PAUSE = 0.01  # seconds between attempts to join the queue of a busy listener

Item = TypeVar("Item")
Connect: TypeAlias = Callable[[socket.socket], None]
"""Connects a non-blocking socket. Raises the errors of `socket.connect`, or `CallFailed`."""


class Connection:
    """One socket, which is closed in a forked child."""

    __slots__ = ("__weakref__", "_arrivals", "socket")

    def __init__(self, connected: socket.socket | None = None) -> None:
        self.socket = connected or socket.socket(socket.AF_UNIX)
        self.socket.setblocking(False)
        self._arrivals = select.poll()
        self._arrivals.register(self.socket, select.POLLIN)
        start_over_in_children(self)

    def open(self, connect: Connect) -> bool:
        """Connects, which succeeds or fails immediately; false: try again. Raises OSError.

        It is false while the listener's queue is full; no event says when that changes.
        """
        try:
            connect(self.socket)
        except BlockingIOError:
            return False
        return True

    def is_quiet(self) -> bool:
        """Whether the peer has neither closed the connection nor sent bytes without a request."""
        return not self._arrivals.poll(0)

    def close(self) -> None:
        """Closes the connection, or this process's copy of it."""
        self.socket.close()

    start_over = close


def popped(items: list[Item]) -> Item | None:
    """The last item, which no other thread or signal handler gets then; None if there is none."""
    try:
        return items.pop()
    except IndexError:
        return None


def connect_to(path: str, connection: socket.socket) -> None:
    """Connects to the unix socket at a path; an invalid path is a permanent `CallFailed`."""
    if fault := fault_of_path(path):
        raise unreachable(fault, permanent=True)
    try:
        connection.connect(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, error.strerror, os.path.abspath(path)) from error
    except ConnectionRefusedError as error:
        kind = kind_of_file(path)
        what = f"{path} is {kind}, not a socket" if kind else f"{error.strerror}: {ENDED}"
        raise ConnectionRefusedError(error.errno, what) from error


def kind_of_file(path: str) -> str:
    """What is at the path in place of a socket; empty for a socket, and if nothing is there."""
    with suppress(OSError, ValueError):
        mode = os.stat(path).st_mode
        if not stat.S_ISSOCK(mode):
            return "a folder" if stat.S_ISDIR(mode) else "a file"
    return ""


def fault_of_path(path: str) -> str:
    """Why no socket can ever have the path; empty if one can."""
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        return "the path has characters that no file name can have"
    if "\0" in path[1:]:  # a path that begins with NUL names no file, unix(7)
        return "the path has a NUL character"
    if size > LONGEST_PATH:
        return f"the path has {size} bytes, that of a unix socket at most {LONGEST_PATH}"
    return ""


class Inherited(Protocol):
    """An object whose copy in a forked child must be reset before it is used."""

    def start_over(self) -> None:
        """Called in the child before anything else, while it has one thread."""


_inherited: WeakSet[Inherited] = WeakSet()


def start_over_in_children(inherited: Inherited) -> None:
    """Calls `inherited.start_over()` first in every process that is forked from this one."""
    _inherited.add(inherited)


def _start_over() -> None:
    errors = []
    for inherited in list(_inherited):
        try:
            inherited.start_over()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


os.register_at_fork(after_in_child=_start_over)
