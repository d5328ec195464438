"""The lines of the monitor's metrics, and rates of them.

Each counter in a line is what was added since the line before, also when that one was lost:
the monitor writes to a full fifo in part or not at all, and does not try again. Measured on 1.16.1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

Group: TypeAlias = Mapping[str, int | Mapping[str, int]]


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
    except (
        ValueError,
        TypeError,
        AttributeError,
        KeyError,
        OverflowError,
        OSError,
        RecursionError,
    ):
        return None
    groups: dict[str, Group] = {
        name: group for name, group in value.items() if isinstance(group, dict)
    }
    return at, groups
