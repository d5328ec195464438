"""The monitor's log and metrics, line by line.

Each counter of the metrics is the increase since the previous line, even if that line was lost: the
monitor writes to a full fifo in part or not at all, and does not retry. Measured on 1.16.1.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from io import FileIO
from typing import Any, Generic, TypeAlias, TypeVar

from generated_vmm.misuse import warn_caller
from generated_vmm.process.settings import HostPath

Item = TypeVar("Item")

Group: TypeAlias = Mapping[str, int | Mapping[str, int]]
DRIVE = ("read_bytes", "write_bytes", "read_count", "write_count")
INTERFACE = ("rx_bytes_count", "tx_bytes_count", "rx_packets_count", "tx_packets_count")
LONGEST_LINE = 1_048_576
READING = os.O_RDONLY | os.O_NONBLOCK
READ_BYTES = 65_536
LOOK_AGAIN = 0.1  # seconds between two reads of a file that grows
# 2026-11-21T14:40:37.243521075 [id:thread] text, or [id:thread:LEVEL:file:line] text
WRITTEN = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d* "
    r"\[(?P<instance_id>[A-Za-z0-9-]*):(?P<thread>[^:\]]*)"
    r"(?::(?P<level>ERROR|WARN|INFO|DEBUG|TRACE))?(?::(?P<origin>[^\]]+))?\] (?P<message>.*)"
)


class Lines(Generic[Item]):
    """Splits bytes that come in pieces into lines and parses them; one over 1 MiB is dropped."""

    def __init__(self, parse: Callable[[str], Item | None]) -> None:
        """`parse` gets a line without its end, and returns None for one that is to be dropped."""
        self._parse = parse
        self._begun = b""
        self._is_dropping = False

    def feed(self, received: bytes) -> Iterator[tuple[Item, int]]:
        """What the lines that these bytes complete contain, each with the line's size."""
        *whole, begun = (self._begun + received).split(b"\n")
        self._begun = begun
        for line in whole:
            dropped, self._is_dropping = self._is_dropping, False
            if not dropped and len(line) <= LONGEST_LINE:
                item = self._parse(line.decode("utf-8", "replace"))
                if item is not None:
                    yield item, len(line)
        if len(begun) > LONGEST_LINE:
            self._begun, self._is_dropping = b"", True


@dataclass(frozen=True)
class LogLine:
    """A line of the log; `text` is the whole line.

    `level` and `origin` (file and line of the monitor's source) are set if the monitor is
    configured to show them. A line that its logger did not write, such as a panic, has only a
    `message`. `at` is in UTC if the host's clock is: the monitor writes local time without an
    offset.
    """

    text: str
    message: str
    at: datetime | None = None
    instance_id: str | None = None
    thread: str | None = None
    level: str | None = None
    origin: str | None = None


def parse_log_line(text: str) -> LogLine:
    """The parsed line of a log."""
    found = WRITTEN.fullmatch(text)
    if found is None:
        return LogLine(text, text)
    try:
        at = datetime.fromisoformat(found["at"])
    except ValueError:
        return LogLine(text, text)
    parts: dict[str, Any] = found.groupdict() | {"at": at}
    return LogLine(text, **parts)


@dataclass(frozen=True)
class DriveRates:
    """Rates of a drive, per second."""

    read_bytes: float
    write_bytes: float
    reads: float
    writes: float


@dataclass(frozen=True)
class NetworkRates:
    """Rates of a network interface, per second, as the guest sees it: rx is to the guest."""

    rx_bytes: float
    tx_bytes: float
    rx_packets: float
    tx_packets: float


@dataclass(frozen=True)
class Rates:
    """Rates between two lines of the metrics, `seconds` apart; devices by their id."""

    seconds: float
    drives: Mapping[str, DriveRates]
    network_interfaces: Mapping[str, NetworkRates]


@dataclass(frozen=True)
class Metrics:
    """A line of the metrics: `groups` as the monitor names them, `at` in UTC.

    Counters are increases in the last `seconds`, which is None for the first line and for one
    after a lost line. Values of the kind "store", such as `latencies_us`, are no increases.
    """

    at: datetime
    groups: Mapping[str, Group] = field(repr=False)
    seconds: float | None = None

    def count(self, group: str, name: str) -> int:
        """A counter's value; 0 if the monitor has no such counter.

        Emits a RuntimeWarning if another group has it, unless the group is that of a device, and if
        the group has one with a similar name.
        """
        found = self.groups.get(group, {})
        if name not in found and (instead := next(self._instead(group, name), "")):
            warn_caller(f"{group} has no {name!r}, which counts as 0; {instead}")
        return _number(found.get(name))

    def _instead(self, group: str, name: str) -> Iterator[str]:
        kind, _, device = group.partition("_")
        if not device or kind not in self.groups:
            yield from (f"{other} has it" for other, found in self.groups.items() if name in found)
        for like in get_close_matches(name, self.groups.get(group, {}), 1):
            yield f"it has {like!r}"

    def rate(self, group: str, name: str) -> float | None:
        """A counter per second; None if the time that it counted is unknown."""
        return self.count(group, name) / self.seconds if self.seconds else None

    @property
    def rates(self) -> Rates | None:
        """The rates of the devices; None if the time that they counted is unknown."""
        if not self.seconds:
            return None
        return Rates(
            self.seconds,
            {id: DriveRates(*rates) for id, rates in self._rates_of("block_", DRIVE)},
            {id: NetworkRates(*rates) for id, rates in self._rates_of("net_", INTERFACE)},
        )

    def _rates_of(self, prefix: str, names: tuple[str, ...]) -> Iterator[tuple[str, list[float]]]:
        for group, found in self.groups.items():
            if group.startswith(prefix):
                counts = [_number(found.get(name)) for name in names]
                yield group[len(prefix) :], [count / (self.seconds or 1.0) for count in counts]


def _number(value: object) -> int:
    """A counter; other members of a group count nothing."""
    return value if isinstance(value, int) else 0


class MetricsReader:
    """Parses lines into metrics, with the time that each counted."""

    def __init__(self) -> None:
        self._before: datetime | None = None

    def read(self, line: str) -> Metrics | None:
        """The metrics in a line; None for one that the monitor wrote only in part."""
        before, self._before = self._before, None
        try:
            value = json.loads(line)
            at = datetime.fromtimestamp(value.pop("utc_timestamp_ms") / 1000, UTC)
        except Exception:  # whatever the monitor wrote in part
            return None
        self._before = at
        groups = {name: group for name, group in value.items() if isinstance(group, dict)}
        passed = (at - before).total_seconds() if before else 0.0
        return Metrics(at, groups, passed if passed > 0 else None)


def log_lines() -> Lines[LogLine]:
    """The lines of a log."""
    return Lines(parse_log_line)


def metrics_lines() -> Lines[Metrics]:
    """The lines of the metrics."""
    return Lines(MetricsReader().read)


def opened(path: HostPath) -> FileIO:
    """A file or a fifo. If a fifo is empty, `read` returns None, or no bytes without a writer."""
    return open(os.open(path, READING), "rb", buffering=0)
