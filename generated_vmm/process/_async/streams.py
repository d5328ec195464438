"""Following a monitor's outputs: its guest's console, its log, its metrics."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator
from typing import TypeVar

from generated_vmm.concurrency._async import readable, sleep
from generated_vmm.process._async.waiting import wait_for
from generated_vmm.process.broadcast import BroadcastLog, LastItems
from generated_vmm.process.console import PAUSE, Console, Piece, Seconds, write_some
from generated_vmm.process.lines import (
    LOOK_AGAIN,
    LineReader,
    Lines,
    LogLine,
    Metrics,
    MetricsReader,
    parse_log_line,
)
from generated_vmm.process.settings import HostPath

Item = TypeVar("Item")


class AsyncFollowed(BroadcastLog):
    """A stream that grows until the monitor ends, and that can be waited for."""

    async def wait(self, position: int, seconds: float | None = None) -> bool:
        """Waits for data from a position on; false at the end. Raises TimeoutError."""
        await wait_for(self, lambda: self.ended or self.has_more(position), seconds)
        return self.has_more(position)


class AsyncRingBuffer(AsyncFollowed, LastItems[Item]):
    """The last items of a stream, oldest first: iterate over them, or `follow` new ones."""

    def follow(self, since: int | None = None) -> AsyncIterator[Item]:
        """The items from a position on (None: only new ones), until the stream ends.

        A follower that is slower than the stream misses the items that have been dropped.
        """
        return self._follow(self.position if since is None else since)

    async def _follow(self, position: int) -> AsyncIterator[Item]:
        while await self.wait(position):
            items, position = self.piece(position)
            for item in items:
                yield item


class AsyncSerial(AsyncFollowed, Console):
    """The guest's serial console: its last bytes, and writing to it.

    The monitor's own output before its log is set up comes here too. Several callers may share it.
    """

    def follow(self, since: int | None = None) -> AsyncIterator[Piece]:
        """The bytes from a position on (None: only new ones), until the monitor ends."""
        return self._follow(self.position if since is None else since)

    async def _follow(self, position: int) -> AsyncIterator[Piece]:
        while await self.wait(position):
            piece = self.read(position)
            position = piece.end
            yield piece

    async def read_until(self, expected: bytes, since: int = 0, timeout: float = 10.0) -> Piece:
        """The stored bytes from a position on, as soon as they contain `expected`.

        Raises `VmmTimeoutError` if they do not within `timeout` seconds, and `MonitorError` if the
        monitor ends before.
        """
        seconds = Seconds(timeout)
        while expected not in (piece := self.read(since)).data:
            with seconds.say(piece.lacks(expected)):
                piece.require_more(await self.wait(piece.end, seconds.left), expected)
        return piece

    async def write(self, data: bytes, timeout: float = 5.0) -> None:
        """Writes to the guest's console; the monitor's fifo buffers 64 KiB for a slow guest.

        Raises `VmmTimeoutError` if the bytes are not read within `timeout` seconds, and
        `MonitorError` if no monitor reads them.
        """
        seconds, what = Seconds(timeout), f"the guest did not take all of {len(data)} bytes"
        with self.opened_input() as descriptor, seconds.say(what):
            while data := write_some(descriptor, data):
                await sleep(min(PAUSE, seconds.left))


def async_log(path: HostPath, *, follow: bool = True) -> AsyncIterator[LogLine]:
    """The lines of a log: of a file, or of a fifo, which is emptied by reading it.

    With `follow` it waits for lines that are written later; a fifo ends with its last writer.
    """
    return _items(path, Lines(parse_log_line), follow)


def async_metrics(path: HostPath, *, follow: bool = True) -> AsyncIterator[Metrics]:
    """The metrics in a file, or in a fifo, which is emptied by reading it.

    With `follow` it waits for lines that are written later; a fifo ends with its last writer.
    """
    return _items(path, Lines(MetricsReader().read), follow)


async def _items(path: HostPath, lines: Lines[Item], follow: bool) -> AsyncIterator[Item]:
    with contextlib.closing(LineReader(path, lines)) as reader:
        while not reader.is_at_end:
            if follow and reader.is_fifo:
                await readable(reader.descriptor, math.inf)
            while follow and not reader.has_grown():
                await sleep(LOOK_AGAIN)
            for items in reader.read():
                for item in items:
                    yield item
                await sleep(0)  # other tasks run between the pieces of a long file
            if not follow:
                return
