"""The outputs of a monitor: its guest's console, its log, its metrics."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from generated_vmm.process.broadcast import BroadcastLog, Console, LastItems
from generated_vmm.process.keeper.kernel import Descriptor, ready_of
from generated_vmm.process.keeper.record import INPUT, LOG, METRICS, OUTPUT
from generated_vmm.process.lines import READ_BYTES, LogLine, Metrics

LAST_WORDS = 20
LARGEST_FIFO = 1_048_576  # bytes (pipe(7))


class Outlets:
    """Reads the monitor's fifos into the streams that store their last bytes and lines."""

    def __init__(
        self, console: Console, log: LastItems[LogLine], metrics: LastItems[Metrics]
    ) -> None:
        self.console, self.log = console, log
        self._streams: dict[str, BroadcastLog[Any]] = {OUTPUT: console, LOG: log, METRICS: metrics}
        self._open: dict[int, tuple[BroadcastLog[Any], Descriptor]] = {}

    def open(self, given: Mapping[str, Descriptor]) -> None:
        """Takes the ends of the fifos that are there."""
        self.console.input = given.get(INPUT)
        for name in self._streams.keys() & given:
            self._open[given[name].number] = (self._streams[name], given[name])

    def read_until(self, descriptor: int) -> None:
        """Reads the fifos until another descriptor is ready."""
        while descriptor not in (ready := ready_of([descriptor, *self._open])):
            for each in ready:
                self._read(each)

    def _read(self, descriptor: int, most: int = READ_BYTES) -> None:
        """Reads from a fifo, and closes it once all its writers have."""
        with contextlib.suppress(BlockingIOError):  # another process reads here too
            if received := os.read(descriptor, most):
                self._open[descriptor][0].feed(received)
            else:
                del self._open[descriptor]

    def end(self) -> None:
        """Reads the rest, closes the fifos, and ends the streams."""
        for each in [*self._open]:
            self._read(each, LARGEST_FIFO)
        self.abandon()
        for stream in self._streams.values():
            stream.end()

    def abandon(self) -> None:
        """Only closes the fifos, in a forked process."""
        self._open, self.console.input = {}, None

    def last_words(self) -> list[str]:
        """The last lines of the log, or of the monitor's output before it had a log."""
        printed = self.console.read().data.decode("utf-8", "replace").splitlines()
        return ([line.text for line in self.log] or printed)[-LAST_WORDS:]
