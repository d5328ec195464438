"""Following a fifo or a file of the monitor, line by line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import time
from collections.abc import AsyncIterator, Iterator

from generated_vmm.process.lines import Lines, LogLine, Metrics, MetricsReader, parse_log_line
from generated_vmm.process.reaper import is_ready
from generated_vmm.process.settings import HostPath

READING = os.O_RDONLY | os.O_NONBLOCK
READ_BYTES = 65_536
PAUSE = 0.1  # seconds between two looks at a file: nothing tells of its growth


class LineReader:
    """The lines of a fifo or a file, as far as they have been written.

    A fifo is emptied without waiting for anybody, so that its writer never waits. A file that was
    truncated is read from its beginning, as is one that has taken the place of the file.
    """

    def __init__(self, path: HostPath) -> None:
        self._path = path
        self.descriptor = os.open(path, READING)
        self._is_fifo = stat.S_ISFIFO(os.fstat(self.descriptor).st_mode)
        self.is_at_end = False
        self._lines = Lines()

    def read(self) -> Iterator[str]:
        """The whole lines that are there; `is_at_end` tells whether a fifo's writers are gone."""
        with contextlib.suppress(BlockingIOError):
            while received := os.read(self.descriptor, READ_BYTES):
                yield from self._lines.feed(received)
            self.is_at_end = self._is_fifo

    def wait(self) -> None:
        """Waits until there is more to read, or a fifo's writers are gone."""
        if self._is_fifo:
            is_ready(self.descriptor, None)
        while not self._has_grown():
            time.sleep(PAUSE)

    async def async_wait(self) -> None:
        """Waits as a task."""
        if self._is_fifo:
            loop, ready = asyncio.get_running_loop(), asyncio.Event()
            loop.add_reader(self.descriptor, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(self.descriptor)
        while not self._has_grown():  # noqa: ASYNC110  # no event tells of a file's growth
            await asyncio.sleep(PAUSE)

    def _has_grown(self) -> bool:
        if self._is_fifo:
            return True
        position, found = os.lseek(self.descriptor, 0, os.SEEK_CUR), os.fstat(self.descriptor)
        if found.st_size < position:
            os.lseek(self.descriptor, 0, os.SEEK_SET)
            self._lines = Lines()
        return found.st_size > 0 if found.st_size != position else self._is_replaced(found)

    def _is_replaced(self, read: os.stat_result) -> bool:
        """Goes on with the file that is at the path now, once something is in it."""
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(self._path)
            if found.st_size and not os.path.samestat(found, read):
                os.close(self.descriptor)
                self.descriptor, self._lines = os.open(self._path, READING), Lines()
                return True
        return False

    def close(self) -> None:
        """Closes the fifo or the file."""
        os.close(self.descriptor)


def log(path: HostPath, *, follow: bool = True) -> Iterator[LogLine]:
    """The lines of a log: a file, or a fifo, which is emptied by reading it.

    With `follow` it goes on to what is written later, to a fifo until its writers are gone.
    """
    return map(parse_log_line, _lines(path, follow))


def metrics(path: HostPath, *, follow: bool = True) -> Iterator[Metrics]:
    """The metrics in a file, or a fifo, which is emptied by reading it.

    With `follow` it goes on to what is written later, to a fifo until its writers are gone.
    """
    reader = MetricsReader()
    return (found for line in _lines(path, follow) if (found := reader.read(line)) is not None)


async def async_log(path: HostPath, *, follow: bool = True) -> AsyncIterator[LogLine]:
    """As `log`, for tasks."""
    async for line in _async_lines(path, follow):
        yield parse_log_line(line)


async def async_metrics(path: HostPath, *, follow: bool = True) -> AsyncIterator[Metrics]:
    """As `metrics`, for tasks."""
    reader = MetricsReader()
    async for line in _async_lines(path, follow):
        found = reader.read(line)
        if found is not None:
            yield found


def _lines(path: HostPath, follow: bool) -> Iterator[str]:
    with contextlib.closing(LineReader(path)) as reader:
        while not reader.is_at_end:
            if follow:
                reader.wait()
            yield from reader.read()
            if not follow:
                return


async def _async_lines(path: HostPath, follow: bool) -> AsyncIterator[str]:
    with contextlib.closing(LineReader(path)) as reader:
        while not reader.is_at_end:
            if follow:
                await reader.async_wait()
            for line in reader.read():
                yield line
            if not follow:
                return
