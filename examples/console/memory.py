"""How a guest uses its memory, as its balloon tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from generated_vmm import BalloonStats

MEMORY_LABELS: Final[Mapping[str, str]] = {
    "available_memory": "Available",
    "free_memory": "Free",
    "actual_mib": "In the balloon",
}
_BYTES_PER_MIB: Final = 1 << 20


def memory_figures(stats: BalloonStats) -> Mapping[str, float]:
    """The figures the guest gives, in MiB."""
    in_bytes = {"available_memory": stats.available_memory, "free_memory": stats.free_memory}
    known = {key: value / _BYTES_PER_MIB for key, value in in_bytes.items() if value is not None}
    return {**known, "actual_mib": stats.actual_mib}
