"""The monitor's log and metrics, line by line.

Each counter of the metrics is what was added since the line before, also when that one was lost:
the monitor writes to a full fifo in part or not at all, and does not try again. Measured on 1.16.1.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

from generated_vmm.process.settings import HostPath

NO_METRICS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    OSError,
    RecursionError,
)
Group: TypeAlias = Mapping[str, int | Mapping[str, int]]
LONGEST_LINE = 1_048_576
READING = os.O_RDONLY | os.O_NONBLOCK
READ_BYTES = 65_536
LOOK_AGAIN = 0.1  # seconds between two looks at a file: nothing tells of its growth
# 2026-11-21T14:40:37.243521075 [id:thread] text, or [id:thread:LEVEL:file:line] text
WRITTEN = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d* "
    r"\[(?P<id>[A-Za-z0-9-]*):(?P<thread>[^:\]]*)"
    r"(?::(?P<level>ERROR|WARN|INFO|DEBUG|TRACE))?(?::(?P<origin>[^\]]+))?\] (?P<message>.*)"
)


class Lines:
    """Makes lines of bytes that come in pieces. A line over 1 MiB is dropped."""

    def __init__(self) -> None:
        self._begun = b""
        self._is_dropping = False

    def feed(self, received: bytes) -> Iterator[str]:
        """The lines that are whole with these bytes, without their ends."""
        *whole, begun = (self._begun + received).split(b"\n")
        self._begun = begun
        for line in whole:
            dropped, self._is_dropping = self._is_dropping, False
            if not dropped and len(line) <= LONGEST_LINE:
                yield line.decode("utf-8", "replace")
        if len(begun) > LONGEST_LINE:
            self._begun, self._is_dropping = b"", True


@dataclass(frozen=True)
class LogLine:
    """A line of the log; `text` is all of it.

    `level` and `origin` (file and line of the monitor's source) are there when the monitor was
    told to show them. What is not written by its logger, as a panic, has a `message` alone.
    `at` is in UTC on the assumption that the host's clock is: the monitor writes local time
    without an offset.
    """

    text: str
    message: str
    at: datetime | None = None
    instance_id: str | None = None
    thread: str | None = None
    level: str | None = None
    origin: str | None = None


def parse_log_line(text: str) -> LogLine:
    """What a line of the log says."""
    found = WRITTEN.fullmatch(text)
    if found is None:
        return LogLine(text, text)
    try:
        at = datetime.fromisoformat(found["at"])
    except ValueError:
        return LogLine(text, text)
    return LogLine(
        text, found["message"], at, found["id"], found["thread"], found["level"], found["origin"]
    )


@dataclass(frozen=True)
class DriveRates:
    """What a drive did, per second."""

    read_bytes: float
    write_bytes: float
    reads: float
    writes: float


@dataclass(frozen=True)
class NetworkRates:
    """What a network interface did, per second, as the guest sees it: rx is to the guest."""

    rx_bytes: float
    tx_bytes: float
    rx_packets: float
    tx_packets: float


@dataclass(frozen=True)
class Rates:
    """What went on between two lines of the metrics, `seconds` apart; devices by their id."""

    seconds: float
    drives: Mapping[str, DriveRates]
    network_interfaces: Mapping[str, NetworkRates]


@dataclass(frozen=True)
class Metrics:
    """A line of the metrics: `groups` as the monitor names them, `at` in UTC.

    Counters say what was added in the last `seconds`, which is None for the first line and for
    one after a lost line. Values of the kind "store", as `latencies_us`, stand for themselves.
    """

    at: datetime
    groups: Mapping[str, Group] = field(repr=False)
    seconds: float | None = None

    def count(self, group: str, name: str) -> int:
        """A counter's value; 0 when the monitor has no such counter."""
        value = self.groups.get(group, {}).get(name, 0)
        return value if isinstance(value, int) else 0

    def rate(self, group: str, name: str) -> float | None:
        """A counter per second; None when it is not known for how long it counted."""
        return self.count(group, name) / self.seconds if self.seconds else None

    @property
    def rates(self) -> Rates | None:
        """The rates of the devices; None when it is not known for how long they counted."""
        if not self.seconds:
            return None
        return Rates(
            self.seconds,
            {id: self._drive(group) for id, group in self._devices("block_")},
            {id: self._network_interface(group) for id, group in self._devices("net_")},
        )

    def _devices(self, prefix: str) -> Iterator[tuple[str, str]]:
        return ((name[len(prefix) :], name) for name in self.groups if name.startswith(prefix))

    def _drive(self, group: str) -> DriveRates:
        names = ("read_bytes", "write_bytes", "read_count", "write_count")
        return DriveRates(*(self.rate(group, name) or 0.0 for name in names))

    def _network_interface(self, group: str) -> NetworkRates:
        names = ("rx_bytes_count", "tx_bytes_count", "rx_packets_count", "tx_packets_count")
        return NetworkRates(*(self.rate(group, name) or 0.0 for name in names))


class MetricsReader:
    """Makes metrics of lines, and knows how long each counted."""

    def __init__(self) -> None:
        self._before: datetime | None = None

    def read(self, line: str) -> Metrics | None:
        """The metrics in a line; None when it is none, because the monitor wrote it in part."""
        before, self._before = self._before, None
        found = parse_metrics(line)
        if found is None:
            return None
        at, groups = found
        self._before = at
        passed = (at - before).total_seconds() if before else 0.0
        return Metrics(at, groups, passed if passed > 0 else None)


def parse_metrics(line: str) -> tuple[datetime, dict[str, Group]] | None:
    """The time and the groups of a line; None when it is no line of metrics."""
    try:
        value = json.loads(line)
        at = datetime.fromtimestamp(value.pop("utc_timestamp_ms") / 1000, UTC)
    except NO_METRICS:
        return None
    groups: dict[str, Group] = {
        name: group for name, group in value.items() if isinstance(group, dict)
    }
    return at, groups


class LineReader:
    """The lines of a fifo or a file, as far as they have been written.

    A fifo is emptied without waiting for anybody, so that its writer never waits. A file that was
    truncated is read from its beginning, as is one that has taken the place of the file.
    """

    def __init__(self, path: HostPath) -> None:
        self._path = path
        self.descriptor = os.open(path, READING)
        self.is_fifo = stat.S_ISFIFO(os.fstat(self.descriptor).st_mode)
        self.is_at_end = False
        self._lines = Lines()

    def read(self) -> Iterator[str]:
        """The whole lines that are there; `is_at_end` tells whether a fifo's writers are gone."""
        with contextlib.suppress(BlockingIOError):
            while received := os.read(self.descriptor, READ_BYTES):
                yield from self._lines.feed(received)
            self.is_at_end = self.is_fifo

    def has_grown(self) -> bool:
        """Whether there is more to read, or a fifo has been waited for."""
        if self.is_fifo:
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
