"""The guest's console: the last bytes it wrote, and writing to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from generated_vmm.errors import VmmTimeoutError
from generated_vmm.process.broadcast import BroadcastLog
from generated_vmm.process.errors import MonitorError

PAUSE = 0.01  # seconds until another attempt to write to a guest that does not read
LONGEST_QUOTE = 40
SHORT_PIECE = 4_096  # bytes: shorter pieces are put together


@dataclass(frozen=True)
class Piece:
    """Bytes of the console and where they begin, counted from the monitor's start."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        """The position after them: `since` for what comes next."""
        return self.start + len(self.data)


class Console(BroadcastLog):
    """The last bytes of the guest's console, and the fifo that leads to it."""

    def __init__(self, size: int, open_input: Callable[[int], int]) -> None:
        """`open_input` opens the fifo with the flags that it is given."""
        super().__init__()
        self._size = size
        self._pieces: deque[Piece] = deque()
        self._open = open_input

    def feed(self, received: bytes) -> None:
        """Adds bytes and lets go of the oldest."""
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
        """What is kept from a position on.

        The piece starts after `since` when older bytes are gone.
        """
        pieces = self._pieces.copy()  # at once, while the thread that feeds goes on
        if not pieces:
            return Piece(min(max(since, 0), self._position), b"")
        first, end = pieces[0].start, pieces[-1].end
        start = min(max(since, first, end - self._size), end)
        return Piece(start, b"".join(piece.data for piece in pieces)[start - first :])

    def _open_input(self) -> int:
        try:
            return self._open(os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:  # ENXIO: no monitor has it open
            raise MonitorError(f"the guest's console takes no input: {error}") from error


class Serial(Console):
    """The guest's serial console: the last bytes it wrote, and writing to it.

    What the monitor prints before its log is set up comes here too. Threads may share it.
    """

    def follow(self, since: int | None = None) -> Iterator[Piece]:
        """What comes from a position on (None: from here on), until the monitor ends."""
        return self._follow(self.position if since is None else since)

    def _follow(self, position: int) -> Iterator[Piece]:
        while self.wait(position):
            piece = self.read(position)
            position = piece.end
            yield piece

    def read_until(self, expected: bytes, since: int = 0, timeout: float = 10.0) -> Piece:
        """What is kept from a position on, as soon as `expected` is in it.

        Raises `VmmTimeoutError` when it is not there within `timeout` seconds, `MonitorError`
        when the monitor ends before.
        """
        seconds = _Seconds(timeout)
        while expected not in (piece := self.read(since)).data:
            with seconds.say(_unseen(expected, piece)):
                _require_more(self.wait(piece.end, seconds.left), expected, piece)
        return piece

    def write(self, data: bytes, timeout: float = 5.0) -> None:
        """Writes to the guest's console; the monitor's fifo keeps 64 KiB for a slow guest.

        Raises `VmmTimeoutError` when it is not taken within `timeout` seconds, `MonitorError`
        when there is no monitor to take it.
        """
        seconds = _Seconds(timeout)
        with _closing(self._open_input()) as descriptor, seconds.say(_untaken(data)):
            while data := _write_some(descriptor, data):
                time.sleep(min(PAUSE, seconds.left))


class AsyncSerial(Console):
    """`Serial` for the tasks of an event loop."""

    def follow(self, since: int | None = None) -> AsyncIterator[Piece]:
        """What comes from a position on (None: from here on), until the monitor ends."""
        return self._follow(self.position if since is None else since)

    async def _follow(self, position: int) -> AsyncIterator[Piece]:
        while await self.async_wait(position):
            piece = self.read(position)
            position = piece.end
            yield piece

    async def read_until(self, expected: bytes, since: int = 0, timeout: float = 10.0) -> Piece:  # noqa: ASYNC109  # as the sync one
        """What is kept from a position on, as soon as `expected` is in it.

        Raises `VmmTimeoutError` when it is not there within `timeout` seconds, `MonitorError`
        when the monitor ends before.
        """
        seconds = _Seconds(timeout)
        while expected not in (piece := self.read(since)).data:
            with seconds.say(_unseen(expected, piece)):
                _require_more(await self.async_wait(piece.end, seconds.left), expected, piece)
        return piece

    async def write(self, data: bytes, timeout: float = 5.0) -> None:  # noqa: ASYNC109  # as the sync one
        """Writes to the guest's console; the monitor's fifo keeps 64 KiB for a slow guest.

        Raises `VmmTimeoutError` when it is not taken within `timeout` seconds, `MonitorError`
        when there is no monitor to take it.
        """
        seconds = _Seconds(timeout)
        with _closing(self._open_input()) as descriptor, seconds.say(_untaken(data)):
            while data := _write_some(descriptor, data):  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(min(PAUSE, seconds.left))


class _Seconds:
    """The time that one call has."""

    def __init__(self, seconds: float) -> None:
        self._given = seconds
        self._deadline = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds left. TimeoutError when there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    @contextlib.contextmanager
    def say(self, what: str) -> Iterator[None]:
        """Says what did not happen in time."""
        try:
            yield
        except TimeoutError as error:
            raise VmmTimeoutError(f"{what} within {self._given} s") from error


def _unseen(expected: bytes, piece: Piece) -> str:
    return f"the guest did not write {expected!r} after {piece.data[-LONGEST_QUOTE:]!r}"


def _untaken(data: bytes) -> str:
    return f"the guest did not take all of {len(data)} bytes"


def _require_more(more: bool, expected: bytes, piece: Piece) -> None:
    if not more:
        end = piece.data[-LONGEST_QUOTE:]
        raise MonitorError(f"the monitor ended before its guest wrote {expected!r}; last: {end!r}")


def _write_some(descriptor: int, data: bytes) -> bytes:
    """Writes what there is room for; the rest."""
    try:
        return data[os.write(descriptor, data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError as error:
        raise MonitorError("the monitor ended before it took the input") from error


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
