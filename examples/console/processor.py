"""How much processor time a monitor's process takes: its guest's, and its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from generated_vmm.process import Usage

PROCESSOR_LABELS: Final[Mapping[str, str]] = {"used": "Used"}


def share(before: Usage, after: Usage) -> Mapping[str, float]:
    """Percent of one processor between two usages; nothing when they are of one moment."""
    seconds = after.at - before.at
    if seconds <= 0 or after.cpu_seconds < before.cpu_seconds:
        return {}
    return {"used": 100 * (after.cpu_seconds - before.cpu_seconds) / seconds}
