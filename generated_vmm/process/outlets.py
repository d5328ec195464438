"""What comes out of a monitor: its guest's console, its log, its metrics."""

from __future__ import annotations

import contextlib
import os
import stat
from collections import deque

from generated_vmm.process.growing import Kept
from generated_vmm.process.lines import Lines
from generated_vmm.process.log_line import LogLine, parse_log_line
from generated_vmm.process.metrics_line import Metrics, MetricsReader
from generated_vmm.process.place import CONSOLE_OUTPUT, LOG, METRICS, Place
from generated_vmm.process.pump import Feed
from generated_vmm.process.serial import Console

LOG_LINES, METRICS_LINES, LAST_WORDS = 200, 60, 20
READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
LONGEST_TAIL = 65_536


class Outlets:
    """Keeps the last of what comes out of the monitor's fifos."""

    def __init__(self, console: Console, log: Kept[LogLine], metrics: Kept[Metrics]) -> None:
        self.console = console
        self.log = log
        self.metrics = metrics
        self._log_lines = Lines()
        self._metrics_lines = Lines()
        self._metrics_reader = MetricsReader()

    def open(self, place: Place) -> dict[int, Feed]:
        """Opens the fifos for reading, and says what to do with what they give."""
        feeds: dict[int, Feed] = {}
        with contextlib.ExitStack() as stack:
            for path, feed in (
                (str(place.directory / CONSOLE_OUTPUT), self.console.feed),
                (place.outlet(LOG), self._feed_log),
                (place.outlet(METRICS), self._feed_metrics),
            ):
                descriptor = os.open(path, READING)
                stack.callback(os.close, descriptor)
                feeds[descriptor] = feed
            stack.pop_all()
        return feeds

    def _feed_log(self, received: bytes) -> None:
        for line in self._log_lines.feed(received):
            self.log.put(parse_log_line(line))

    def _feed_metrics(self, received: bytes) -> None:
        for line in self._metrics_lines.feed(received):
            metrics = self._metrics_reader.read(line)
            if metrics is not None:
                self.metrics.put(metrics)

    def end(self) -> None:
        """Says that nothing more will come."""
        for outlet in (self.console, self.log, self.metrics):
            outlet.end()

    def last_words(self, log_file: str | None) -> list[str]:
        """The last lines of the log, else of what the monitor printed before it had one."""
        log = [*(tail_of(log_file) if log_file else []), *(line.text for line in self.log)]
        printed = self.console.read().data.decode("utf-8", "replace").splitlines()
        return (log or printed)[-LAST_WORDS:]


def tail_of(path: str) -> list[str]:
    """The last lines of a file; none of what is no file or cannot be read."""
    with (
        contextlib.suppress(OSError),
        open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file,
    ):
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LONGEST_TAIL))
            lines = file.read(LONGEST_TAIL).decode("utf-8", "replace").splitlines()
            return list(deque(lines, LAST_WORDS))
    return []
