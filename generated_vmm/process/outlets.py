"""The outputs of a monitor: its guest's console, its log, its metrics."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from generated_vmm.process.broadcast import LastItems
from generated_vmm.process.console import Console
from generated_vmm.process.lines import (
    READ_BYTES,
    READING,
    Lines,
    LogLine,
    Metrics,
    MetricsReader,
    parse_log_line,
)
from generated_vmm.process.workspace import CONSOLE_OUTPUT, LOG, METRICS, Workspace

Feed: TypeAlias = Callable[[bytes], object]

LOG_LINES, METRICS_LINES, LAST_WORDS = 200, 60, 20
LARGEST_FIFO = 1_048_576  # bytes (pipe(7))
LONGEST_TAIL = 65_536
LONGEST_POLL = 86_400_000  # milliseconds


class Outlets:
    """Stores the last bytes and lines of the monitor's fifos."""

    def __init__(
        self, console: Console, log: LastItems[LogLine], metrics: LastItems[Metrics]
    ) -> None:
        self.console = console
        self.log = log
        self.metrics = metrics
        self._feeds: dict[int, Feed] = {}
        self._waiting = select.poll()

    def open(self, workspace: Workspace, *, are_all_there: bool = True) -> None:
        """Opens the fifos for reading; those that are there, if the monitor's user may change them.

        Raises OSError for one that should be there.
        """
        log, metrics = Lines(parse_log_line), Lines(MetricsReader().read)
        opened: list[tuple[Callable[[int], int], Feed]] = [
            (partial(workspace.open, CONSOLE_OUTPUT), self.console.feed),
            (partial(workspace.outlet, LOG), lambda new: self.log.put(*log.feed(new))),
            (partial(workspace.outlet, METRICS), lambda new: self.metrics.put(*metrics.feed(new))),
        ]
        for opening, feed in opened:
            with contextlib.suppress(*([] if are_all_there else [OSError])):
                self._add(opening(READING), feed)

    def _add(self, descriptor: int, feed: Feed) -> None:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FileNotFoundError("an outlet is no fifo")
        self._feeds[descriptor] = feed
        self._waiting.register(descriptor, select.POLLIN)

    def read_until(self, descriptors: list[int], seconds: float | None) -> None:
        """Reads the fifos until one of the descriptors is ready, or the time is up."""
        for descriptor in descriptors:
            self._waiting.register(descriptor, select.POLLIN)
        deadline = None if seconds is None else time.monotonic() + seconds
        try:
            while True:
                left = LONGEST_POLL if deadline is None else (deadline - time.monotonic()) * 1000
                ready = [each for each, _ in self._waiting.poll(min(max(0, left), LONGEST_POLL))]
                for descriptor in ready:
                    self._read(descriptor)
                if left <= 0 or any(each in descriptors for each in ready):
                    return
        finally:
            for descriptor in descriptors:
                self._waiting.unregister(descriptor)

    def _read(self, descriptor: int) -> None:
        feed = self._feeds.get(descriptor)
        if feed is None:
            return
        with contextlib.suppress(BlockingIOError):  # another process reads here too
            if received := os.read(descriptor, READ_BYTES):
                feed(received)
            else:
                self._waiting.unregister(descriptor)  # all writers have closed it

    def end(self) -> None:
        """Reads the rest, closes the fifos, and ends the streams."""
        while self._feeds:
            descriptor, feed = self._feeds.popitem()
            with contextlib.suppress(BlockingIOError):
                feed(os.read(descriptor, LARGEST_FIFO))
            os.close(descriptor)
        self._waiting = select.poll()
        for outlet in (self.console, self.log, self.metrics):
            outlet.end()

    def last_words(self, log_file: str | None) -> list[str]:
        """The last lines of the log, or of the monitor's output before it had a log."""
        log = [*(tail_of(log_file) if log_file else []), *(line.text for line in self.log)]
        printed = self.console.read().data.decode("utf-8", "replace").splitlines()
        return (log or printed)[-LAST_WORDS:]


def tail_of(path: str) -> list[str]:
    """The last lines of a file; none if it is not a file or cannot be read."""
    with contextlib.suppress(OSError), open(os.open(path, READING), "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LONGEST_TAIL))
            lines = file.read(LONGEST_TAIL).decode("utf-8", "replace").splitlines()
            return list(deque(lines, LAST_WORDS))
    return []
