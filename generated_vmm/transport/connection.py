"""Connections to unix sockets, and what a forked process does not inherit."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeAlias, TypeVar
from weakref import WeakSet

from generated_vmm.transport.calls import ENDED

LONGEST_PATH = 107  # bytes, unix(7): 108 with the NUL behind them

Item = TypeVar("Item")
Connect: TypeAlias = Callable[[socket.socket], None]
"""Connects a non-blocking socket. Raises the errors of `socket.connect`."""


def hang_up(connection: socket.socket) -> None:
    """Ends a connection, also for a process that was forked meanwhile and has a copy of it."""
    with suppress(OSError):  # the peer has ended it
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def popped(items: list[Item]) -> Item | None:
    """The last item, which no other thread or signal handler gets then; None if there is none."""
    try:
        return items.pop()
    except IndexError:
        return None


def connect_to(path: str, connection: socket.socket) -> None:
    """Connects to the unix socket at a path. Raises OSError, and ValueError for no path at all."""
    if "\0" in path[1:]:  # the kernel would take what is before it; an abstract name begins so
        raise ValueError(f"the path has a NUL character: {path!r}")
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
