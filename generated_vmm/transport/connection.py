"""A unix-socket connection that never blocks, and the one place that a process keeps it in."""

from __future__ import annotations

import os
import select
import socket
from typing import Generic, TypeVar

from generated_vmm.transport.failure import unreachable

LONGEST_PATH = 107  # bytes, unix(7): 108 with the NUL behind them
FULL_QUEUE_PAUSE = 0.01  # seconds until another attempt to join the queue of a busy listener

Turn = TypeVar("Turn")


class Connection:
    """One socket, connected or about to be."""

    __slots__ = ("arrivals", "socket")

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.arrivals = select.poll()
        self.arrivals.register(self.socket, select.POLLIN)

    def reaches(self, path: str) -> bool:
        """Connects, which succeeds or fails at once; false: try again.

        It is false while the listener's queue is full, which no event ends. Raises `CallFailed`.
        """
        if fault := fault_of_path(path):
            raise unreachable(fault, permanent=True)
        try:
            self.socket.connect(path)
        except BlockingIOError:
            return False
        except OSError as error:
            raise unreachable(error) from error
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

    def take(self) -> Connection | None:
        """The kept connection when it is usable; it is nobody else's until it is put back."""
        self.used, self.kept = self.kept, None
        if self.used is None or self.used.is_quiet():
            return self.used
        self.put_back(keep=False)
        return None

    def begin(self) -> Connection:
        """A connection to use that does not reach anything yet."""
        self.used = Connection()
        return self.used

    def put_back(self, *, keep: bool) -> None:
        """Keeps the connection in use for the next call, or closes it."""
        if keep:
            self.kept, self.used = self.used, None
        elif self.used is not None:
            self.used.close()
            self.used = None

    def close(self) -> None:
        """Closes the kept connection."""
        if self.kept is not None:
            self.kept.close()
            self.kept = None

    def abandon(self) -> None:
        """Closes this process's copy of a connection that belongs to its parent."""
        self.put_back(keep=False)
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
