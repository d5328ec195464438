"""Changes that threads, tasks of event loops, and signal handlers wait for.

Waiting holds no lock, so a signal handler may wait for the code that it has interrupted.
"""

from __future__ import annotations

import contextlib
import math
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from generated_vmm.process.keeper.kernel import Descriptor
from generated_vmm.process.lines import Lines

Item = TypeVar("Item")


class Broadcast:
    """Wakes all waiters when something has changed."""

    def __init__(self) -> None:
        self._listeners: set[Callable[[], object]] = set()

    def notify(self) -> None:
        """Wakes all waiters."""
        for listener in list(self._listeners):
            listener()

    @contextlib.contextmanager
    def listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Calls the listener at each change, in whatever thread, while the block runs."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)


class BroadcastLog(Broadcast, ABC, Generic[Item]):
    """Items at positions that grow until the end."""

    def __init__(self) -> None:
        super().__init__()
        self.position = 0
        """The length since the start, dropped data included."""
        self.ended = False
        """Whether nothing more will come."""

    def end(self) -> None:
        """Ends it: nothing more will come."""
        self.ended = True
        self.notify()

    @abstractmethod
    def feed(self, received: bytes) -> None:
        """Adds what has come."""

    @abstractmethod
    def piece(self, position: int) -> tuple[list[Item], int]:
        """The stored items from a position on, and the position after them."""


class LastItems(BroadcastLog[Item]):
    """What the last lines of a stream contain, as far as they fit into a number of bytes."""

    def __init__(self, lines: Lines[Item], most: int, most_bytes: float = math.inf) -> None:
        super().__init__()
        self._lines = lines
        self._items: deque[tuple[int, int, Item]] = deque()  # each with its position and its size
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0

    def __iter__(self) -> Iterator[Item]:
        return iter(self.piece(0)[0])

    def __len__(self) -> int:
        return len(self._items)

    @property
    def last(self) -> Item | None:
        """The last item."""
        return self._items[-1][2] if self._items else None

    def feed(self, received: bytes) -> None:
        """Adds what the lines contain, and drops the oldest."""
        for item, size in self._lines.feed(received):
            self._put(item, size)

    def _put(self, item: Item, size: int) -> None:
        self._items.append((self.position, size, item))
        self.position += 1
        self._bytes += size
        while len(self._items) > self._most or self._bytes > self._most_bytes:
            self._bytes -= self._items.popleft()[1]
        self.notify()

    def piece(self, position: int) -> tuple[list[Item], int]:
        """The stored items from a position on, and the position after them."""
        items = self._items.copy()  # atomic: another thread may put items meanwhile
        end = items[-1][0] + 1 if items else self.position
        return [item for at, _, item in items if at >= position], end


@dataclass(frozen=True)
class Piece:
    """Bytes of the console, and their position, counted from the monitor's start."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        """The position after them: `since` for the next bytes."""
        return self.start + len(self.data)


class Console(BroadcastLog[Piece]):
    """The last bytes of the guest's console, and the fifo that leads to it."""

    input: Descriptor | None = None
    """The fifo that leads to the guest, while the monitor runs."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size, self._kept = size, Piece(0, b"")

    def feed(self, received: bytes) -> None:
        """Adds bytes and drops the oldest."""
        data = (self._kept.data + received)[-self._size :]
        self.position += len(received)
        self._kept = Piece(self.position - len(data), data)
        self.notify()

    def read(self, since: int = 0) -> Piece:
        """The stored bytes from a position on.

        The piece starts after `since` if older bytes have been dropped.
        """
        kept = self._kept  # another thread may feed meanwhile
        start = min(max(since, kept.start), kept.end)
        return Piece(start, kept.data[start - kept.start :])

    def piece(self, position: int) -> tuple[list[Piece], int]:
        """The stored bytes from a position on as one piece, and the position after them."""
        piece = self.read(position)
        return [piece], piece.end

    def write_input(self, data: bytes) -> int:
        """Writes to the guest as much as there is room for; the number of bytes. Raises OSError."""
        fifo = self.input
        if fifo is None:
            raise BrokenPipeError("no monitor reads it")
        try:
            return os.write(fifo.number, data)
        except BlockingIOError:
            return 0
