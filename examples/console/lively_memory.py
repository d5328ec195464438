"""Changing memory statistics of a guest, for the demo's chart."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from typing import Final

from generated_vmm.testing import SimulatedMonitor

_BYTES_PER_MIB: Final = 1 << 20
_SMALLEST_MIB: Final = 128
_SHARES: Final[Mapping[str, float]] = {
    "total_memory": 1.0,
    "available_memory": 0.62,
    "free_memory": 0.38,
    "disk_caches": 0.2,
}


class LivelyMemory(Mapping[str, int]):
    """Figures in bytes that change with time, within the machine's memory."""

    def __init__(self, monitor: SimulatedMonitor) -> None:
        self._monitor = monitor

    def __getitem__(self, name: str) -> int:
        share = _SHARES[name]
        total = self._configured_mib() * _BYTES_PER_MIB
        if name == "total_memory":
            return total
        wave = 0.7 * math.sin(time.monotonic() / 7) + 0.3 * math.sin(time.monotonic() / 1.9)
        return int(total * share * (1 + 0.2 * wave))

    def __iter__(self) -> Iterator[str]:
        return iter(_SHARES)

    def __len__(self) -> int:
        return len(_SHARES)

    def _configured_mib(self) -> int:
        for call in reversed(self._monitor.calls):
            if (call.method, call.path, call.status) == ("PUT", "/machine-config", 204):
                mib: int = json.loads(call.body or b"{}").get("mem_size_mib", _SMALLEST_MIB)
                return mib
        return _SMALLEST_MIB
