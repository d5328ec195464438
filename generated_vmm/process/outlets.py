"""The outputs of a monitor: its guest's console, its log, its metrics."""

from __future__ import annotations

import contextlib
import os
import select
import stat
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

from generated_vmm.process.broadcast import LastItems
from generated_vmm.process.console import Console
from generated_vmm.process.keeper.record import INPUT, LOG, METRICS, OUTPUT
from generated_vmm.process.lines import (
    READ_BYTES,
    READING,
    Lines,
    LogLine,
    Metrics,
    MetricsReader,
    parse_log_line,
)
from generated_vmm.process.program import Descriptor

Item = TypeVar("Item")
Feed: TypeAlias = Callable[[bytes], object]

LOG_LINES, METRICS_LINES, LAST_WORDS = 200, 60, 20
LOG_BYTES, METRICS_BYTES = 1_048_576, 4_194_304
LARGEST_FIFO = 1_048_576  # bytes (pipe(7))
LONGEST_TAIL = 65_536


class Outlets:
    """Stores the last bytes and lines of the monitor's fifos."""

    def __init__(
        self, console: Console, log: LastItems[LogLine], metrics: LastItems[Metrics]
    ) -> None:
        self.console = console
        self.log = log
        self.metrics = metrics
        self._feeds: dict[int, Feed] = {}
        self._given: Mapping[str, Descriptor] = {}

    def open(self, given: Mapping[str, Descriptor]) -> None:
        """Takes the ends of the fifos that are there, in place of those before."""
        self.console.input = given.get(INPUT)
        log, metrics = Lines(parse_log_line), Lines(MetricsReader().read)
        feeds: dict[str, Feed] = {
            OUTPUT: self.console.feed,
            LOG: lambda new: _put(self.log, log.feed(new)),
            METRICS: lambda new: _put(self.metrics, metrics.feed(new)),
        }
        self._feeds = {given[each].number: feeds[each] for each in feeds if each in given}
        self._given = given

    def read_until(self, descriptor: int) -> None:
        """Reads the fifos until another descriptor is ready."""
        waiting = select.poll()
        for each in (descriptor, *self._feeds):
            waiting.register(each, select.POLLIN)
        while True:
            ready = [each for each, _ in waiting.poll()]
            for each in ready:
                if each in self._feeds and not self._read(each):
                    waiting.unregister(each)
            if descriptor in ready:
                return

    def _read(self, descriptor: int, most: int = READ_BYTES) -> bool:
        """Reads from a fifo; false once all its writers have closed it."""
        with contextlib.suppress(BlockingIOError):  # another process reads here too
            received = os.read(descriptor, most)
            self._feeds[descriptor](received)
            return bool(received)
        return True

    def end(self) -> None:
        """Reads the rest, closes the fifos, and ends the streams."""
        for each in self._feeds:
            self._read(each, LARGEST_FIFO)
        self.abandon()
        for outlet in (self.console, self.log, self.metrics):
            outlet.end()

    def abandon(self) -> None:
        """Only closes the fifos, in a forked process."""
        self._feeds, self._given, self.console.input = {}, {}, None

    def last_words(self, log_file: str | None) -> list[str]:
        """The last lines of the log, or of the monitor's output before it had a log."""
        log = [*(tail_of(log_file) if log_file else []), *(line.text for line in self.log)]
        printed = self.console.read().data.decode("utf-8", "replace").splitlines()
        return (log or printed)[-LAST_WORDS:]


def _put(items: LastItems[Item], found: Iterable[tuple[Item, int]]) -> None:
    for item, size in found:
        items.put(item, size=size)


def tail_of(path: str) -> list[str]:
    """The last lines of a file; none if it is not a file or cannot be read."""
    with contextlib.suppress(OSError), open(os.open(path, READING), "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LONGEST_TAIL))
            lines = file.read(LONGEST_TAIL).decode("utf-8", "replace").splitlines()
            return list(deque(lines, LAST_WORDS))
    return []
