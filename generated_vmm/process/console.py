"""The last bytes of the guest's console, and the fifo that leads to it."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from generated_vmm.errors import VmmTimeoutError
from generated_vmm.process.broadcast import BroadcastLog
from generated_vmm.process.errors import MonitorError

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

    def lacks(self, expected: bytes) -> str:
        """The message that `expected` is not in it."""
        return f"the guest did not write {expected!r} after {self.data[-LONGEST_QUOTE:]!r}"

    def require_more(self, more: bool, expected: bytes) -> None:
        """Raises `MonitorError` if the console has ended."""
        if not more:
            what = f"the monitor ended before its guest wrote {expected!r}"
            raise MonitorError(f"{what}; last: {self.data[-LONGEST_QUOTE:]!r}")


class Console(BroadcastLog):
    """The last bytes of the guest's console, and the fifo that leads to it."""

    def __init__(self, size: int, open_input: Callable[[int], int]) -> None:
        """`open_input` opens the fifo with the flags that are passed to it."""
        super().__init__()
        self._size = size
        self._pieces: deque[Piece] = deque()
        self._open = open_input

    def feed(self, received: bytes) -> None:
        """Adds bytes and drops the oldest."""
        if self._pieces and len(self._pieces[-1].data) < SHORT_PIECE:
            last = self._pieces[-1]
            self._pieces[-1] = Piece(last.start, last.data + received)
        else:
            self._pieces.append(Piece(self._position, received))
        self._position += len(received)
        while self._pieces[0].end <= self._position - self._size:
            self._pieces.popleft()
        self.notify()

    def read(self, since: int = 0) -> Piece:
        """The stored bytes from a position on.

        The piece starts after `since` if older bytes have been dropped.
        """
        pieces = self._pieces.copy()  # atomic: another thread may feed meanwhile
        if not pieces:
            return Piece(min(max(since, 0), self._position), b"")
        first, end = pieces[0].start, pieces[-1].end
        start = min(max(since, first, end - self._size), end)
        return Piece(start, b"".join(piece.data for piece in pieces)[start - first :])

    @contextlib.contextmanager
    def opened_input(self) -> Iterator[int]:
        """The fifo that leads to the guest. Raises `MonitorError` if there is no monitor."""
        try:
            descriptor = self._open(os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:  # ENXIO: no monitor has it open
            raise MonitorError(f"the guest's console takes no input: {error}") from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)


class Seconds:
    """The time limit of one call."""

    def __init__(self, seconds: float) -> None:
        self._given = seconds
        self._deadline = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The remaining seconds. Raises TimeoutError if there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    @contextlib.contextmanager
    def say(self, what: str) -> Iterator[None]:
        """Turns TimeoutError into a VmmTimeoutError that says what did not happen in time."""
        try:
            yield
        except TimeoutError as error:
            raise VmmTimeoutError(f"{what} within {self._given} s") from error


def write_some(descriptor: int, data: bytes) -> bytes:
    """Writes as much as fits and returns the rest. Raises `MonitorError` without a monitor."""
    try:
        return data[os.write(descriptor, data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError as error:
        raise MonitorError("the monitor ended before it took the input") from error
