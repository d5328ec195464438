"""A unix-socket connection that never blocks, and the one place that a process keeps it in."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from generated_vmm.transport.failure import unreachable

LONGEST_PATH = 107  # bytes, unix(7): 108 with the NUL behind them
FULL_QUEUE_PAUSE = 0.01  # seconds until another attempt to join the queue of a busy listener

Turn = TypeVar("Turn")
Address: TypeAlias = str | Callable[[socket.socket], object]
"""The path of a socket, or what connects to one."""


class Connection:
    """One socket; `is_open` once it is connected."""

    __slots__ = ("arrivals", "is_open", "socket")

    def __init__(self) -> None:
        self.is_open = False
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.setblocking(False)
        self.arrivals = select.poll()
        self.arrivals.register(self.socket, select.POLLIN)

    def open(self, address: Address) -> bool:
        """Connects, which succeeds or fails at once; false: try again. Raises `CallFailed`.

        It is false while the listener's queue is full, which no event ends.
        """
        if isinstance(address, str) and (fault := fault_of_path(address)):
            raise unreachable(fault, permanent=True)
        try:
            if isinstance(address, str):
                self.socket.connect(address)
            else:
                address(self.socket)
        except BlockingIOError:
            return False
        except OSError as error:
            raise unreachable(error) from error
        self.is_open = True
        return True

    def is_quiet(self) -> bool:
        """Whether the peer has neither closed the connection nor sent anything unasked."""
        return not self.arrivals.poll(0)

    def close(self) -> None:
        """Ends the connection, or this process's share in it."""
        self.socket.close()


class Line(Generic[Turn]):
    """What one process has of a channel: whose turn it is, and the connection.

    At each moment the connection is in one of two places, `kept` or `used`, so that a child that is
    forked at that moment finds it. The child closes its copy and no more: the parent goes on.
    """

    __slots__ = ("kept", "turn", "used")

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.kept: Connection | None = None
        self.used: Connection | None = None

    def take(self) -> Connection:
        """The kept connection when it is usable, else one that is not open yet.

        It is nobody else's until it is put back. Raises `CallFailed` when there can be none.
        """
        kept = self.used = self.kept
        self.kept = None
        if kept is not None:
            if kept.is_quiet():
                return kept
            kept.close()
        try:
            made = self.used = Connection()
        except OSError as error:
            raise unreachable(error) from error
        return made

    def put_back(self, connection: Connection, *, keep: bool) -> None:
        """Keeps the connection for the next call, or closes it."""
        if keep and self.kept is None:
            self.kept = connection
        else:
            connection.close()
        if self.used is connection:
            self.used = None

    def close(self) -> None:
        """Closes the kept connection."""
        if self.kept is not None:
            self.kept.close()
            self.kept = None

    def abandon(self) -> None:
        """Closes this process's copy of a connection that belongs to its parent."""
        if self.used is not None:
            self.used.close()
        self.close()


def fault_of_path(path: str) -> str:
    """Why no socket can ever have the path; empty when one can."""
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        return "the path has characters that no file name can have"
    if "\0" in path[1:]:  # a path that begins with one is a name without a file, unix(7)
        return "the path has a NUL character"
    if size > LONGEST_PATH:
        return f"the path has {size} bytes, that of a unix socket at most {LONGEST_PATH}"
    return ""
