"""The charts of a machine and of the host, and their figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import psutil

from examples.console.chart import BYTES, BYTES_A_SECOND, MEBIBYTES, PERCENT, Chart, Kind, charts
from examples.console.history import History
from generated_vmm import BalloonStats
from generated_vmm.process import Metrics, Usage

PROCESSOR: Final = Kind("Processor", PERCENT, {"processor": "Used"})
MEMORY: Final = Kind(
    "Memory",
    MEBIBYTES,
    {"memory": "Used", "resident": "Taken of the host", "balloon": "In the balloon"},
)
DISK: Final = Kind("Disk", BYTES_A_SECOND, {"read": "Read", "written": "Written"})
NETWORK: Final = Kind("Network", BYTES_A_SECOND, {"received": "Received", "sent": "Sent"})
KINDS: Final = (PROCESSOR, MEMORY, DISK, NETWORK)

_BYTES_PER_MIB: Final = 1 << 20
_COUNTERS: Final = {
    "block": {"read": "read_bytes", "written": "write_bytes"},
    "net": {"received": "rx_bytes_count", "sent": "tx_bytes_count"},
}
"""What is counted of each device, by the kind in the name of its group."""


def of_balloon(stats: BalloonStats) -> Mapping[str, float]:
    """The guest's use of memory, in MiB: memory that is not available to programs is used."""
    figures = {"balloon": float(stats.actual_mib)}
    free = stats.available_memory if stats.available_memory is not None else stats.free_memory
    if stats.total_memory is not None and free is not None:
        figures["memory"] = max(stats.total_memory - free, 0) / _BYTES_PER_MIB
    return figures


def of_usage(before: Usage | None, after: Usage) -> Mapping[str, float]:
    """The host's resources that a monitor's process uses: MiB, and percent of one processor."""
    figures = {"resident": after.memory_bytes / _BYTES_PER_MIB}
    seconds = after.at - before.at if before else 0.0
    if before and seconds > 0 and after.cpu_seconds >= before.cpu_seconds:
        figures["processor"] = 100 * (after.cpu_seconds - before.cpu_seconds) / seconds
    return figures


def of_metrics(lines: Iterable[Metrics]) -> Mapping[str, float]:
    """Bytes per second through all drives and all network interfaces, over several lines.

    Kinds of devices that a machine lacks are omitted, and lines without the time that they counted
    are ignored.
    """
    known = [line for line in lines if line.seconds]
    seconds = sum(line.seconds or 0.0 for line in known)
    passed: defaultdict[str, float] = defaultdict(float)
    for line in known:
        for device, counters in line.groups.items():
            kind, _, name = device.partition("_")
            for figure, counter in _COUNTERS.get(kind if name else "", {}).items():
                passed[figure] += counters.get(counter, 0)
    return {figure: amount / seconds for figure, amount in passed.items()}


HOST_PROCESSOR: Final = Kind("Processor", PERCENT, {"processor": "Used"})
HOST_MEMORY: Final = Kind("Memory", BYTES, {"memory": "Used"})
HOST_DISK: Final = Kind("Disk", BYTES, {"free": "Free"})


class HostUse:
    """Figures of the host, sampled as those of machines are."""

    name = ""
    """The host's name in the records, which no machine can have."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.history = History()
        self._totals = {HOST_PROCESSOR: 100.0, HOST_MEMORY: 0.0, HOST_DISK: 0.0}

    async def sample(self) -> None:
        """Read the figures as they are now."""
        memory, disk = psutil.virtual_memory(), psutil.disk_usage(str(self._folder))
        self._totals |= {HOST_MEMORY: float(memory.total), HOST_DISK: float(disk.total)}
        used = psutil.cpu_percent()  # since the last call, and 0 at the first
        figures = {
            **({"processor": used} if self.history.is_current else {}),
            "memory": float(memory.total - memory.available),
            "free": float(disk.free),
        }
        self.history.add(figures)

    def charts(self) -> list[Chart]:
        """The host's use in the last minutes."""
        return charts(self.history, self._totals)
