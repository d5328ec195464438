"""The last bytes of the guest's console, and the fifo that leads to it."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from io import FileIO

from generated_vmm.process.broadcast import BroadcastLog
from generated_vmm.process.program import Descriptor

PAUSE = 0.01  # seconds between attempts to write to a guest that does not read
LONGEST_QUOTE = 40
SHORT_PIECE = 4_096  # bytes: shorter pieces are joined


@dataclass(frozen=True)
class Piece:
    """Bytes of the console, and their position, counted from the monitor's start."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        """The position after them: `since` for the next bytes."""
        return self.start + len(self.data)


class Console(BroadcastLog):
    """The last bytes of the guest's console, and the fifo that leads to it."""

    input: Descriptor | None = None
    """The fifo that leads to the guest, while the monitor runs."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._pieces: deque[Piece] = deque()

    def feed(self, received: bytes) -> None:
        """Adds bytes and drops the oldest."""
        if self._pieces and len(self._pieces[-1].data) < SHORT_PIECE:
            last = self._pieces[-1]
            self._pieces[-1] = Piece(last.start, last.data + received)
        else:
            self._pieces.append(Piece(self.position, received))
        self.position += len(received)
        while self._pieces[0].end <= self.position - self._size:
            self._pieces.popleft()
        self.notify()

    def read(self, since: int = 0) -> Piece:
        """The stored bytes from a position on.

        The piece starts after `since` if older bytes have been dropped.
        """
        pieces = self._pieces.copy()  # atomic: another thread may feed meanwhile
        if not pieces:
            return Piece(min(max(since, 0), self.position), b"")
        first, end = pieces[0].start, pieces[-1].end
        start = min(max(since, first, end - self._size), end)
        return Piece(start, b"".join(piece.data for piece in pieces)[start - first :])

    def opened_input(self) -> FileIO:
        """The fifo that leads to the guest; `write` returns None if it is full. Raises OSError."""
        fifo = self.input
        if fifo is None:
            raise BrokenPipeError("no monitor reads it")
        return open(os.dup(fifo.number), "wb", buffering=0)
