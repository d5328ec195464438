"""The outputs of a monitor: its guest's console, its log, its metrics."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

from generated_vmm.process.broadcast import Console, LastItems
from generated_vmm.process.keeper.kernel import Descriptor
from generated_vmm.process.keeper.record import INPUT, LOG, METRICS, OUTPUT
from generated_vmm.process.lines import (
    READ_BYTES,
    Lines,
    LogLine,
    Metrics,
    MetricsReader,
    parse_log_line,
)

Item = TypeVar("Item")
Feed: TypeAlias = Callable[[bytes], object]

LAST_WORDS = 20
LARGEST_FIFO = 1_048_576  # bytes (pipe(7))


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

    def last_words(self) -> list[str]:
        """The last lines of the log, or of the monitor's output before it had a log."""
        printed = self.console.read().data.decode("utf-8", "replace").splitlines()
        return ([line.text for line in self.log] or printed)[-LAST_WORDS:]


def _put(items: LastItems[Item], found: Iterable[tuple[Item, int]]) -> None:
    for item, size in found:
        items.put(item, size=size)
