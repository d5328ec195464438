"""The host's resources and their use: processors, memory and the disk of the machines."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import psutil

from examples.console.chart import Chart, Kind, charts
from examples.console.history import History
from examples.console.scale import BYTES, PERCENT

PROCESSOR: Final = Kind("Processor", PERCENT, {"processor": "Used"})
MEMORY: Final = Kind("Memory", BYTES, {"memory": "Used"})
DISK: Final = Kind("Disk", BYTES, {"free": "Free"})


class HostUse:
    """Figures of the host, sampled as those of machines are."""

    name = ""
    """The host's name in the records, which no machine can have."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.history = History()
        self._totals = {PROCESSOR: 100.0, MEMORY: 0.0, DISK: 0.0}

    async def sample(self) -> None:
        """Read the figures as they are now."""
        memory, disk = psutil.virtual_memory(), psutil.disk_usage(str(self._folder))
        self._totals |= {MEMORY: float(memory.total), DISK: float(disk.total)}
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
