"""Figures with their units, ages in words, and the round figure at the top of an axis."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Final

_PREFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti")
_ROUND: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)


@dataclass(frozen=True, slots=True)
class Unit:
    """The format of figures of a kind; `lowest` is the minimum of an axis's top.

    With `binary`, the name has prefixes for powers of 1024.
    """

    name: str
    lowest: float
    binary: bool = False

    def told(self, value: float) -> str:
        """The figure with its unit, in few digits."""
        prefix, power = "", 0
        if self.binary:
            power = next((at for at in range(4) if value < 1000 * 1024**at), 4)
            prefix, value = _PREFIXES[power], value / 1024**power
        digits = 1 if power and value < 10 and round(value, 1) != round(value) else 0
        return f"{value:.{digits}f} {prefix}{self.name}"

    def top(self, highest: float) -> float:
        """A round figure that is at least `highest`."""
        step, powers = (1024, range(6)) if self.binary else (1000, range(3))
        tops = (step**power * number for power, number in product(powers, _ROUND))
        return next((top for top in tops if top >= max(highest, self.lowest)), highest)


PERCENT: Final = Unit("%", 10)
MEBIBYTES: Final = Unit("MiB", 10)
BYTES: Final = Unit("B", 1024, binary=True)
BYTES_A_SECOND: Final = Unit("B/s", 1024, binary=True)
AGES: Final = (("day", 86_400), ("hour", 3600), ("minute", 60))


def ago(moment: datetime, now: datetime | None = None) -> str:
    """`just now`, `1 minute ago`, `3 hours ago`; a future moment is just now."""
    seconds = _seconds_since(moment, now)
    for name, length in AGES:
        if seconds >= length:
            count = seconds // length
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def lasting(moment: datetime, now: datetime | None = None) -> str:
    """`12 s`, `4 min`, `3 h 12 min`, `5 d 2 h`: the time since a moment in at most two units."""
    seconds = _seconds_since(moment, now)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds} s"


def _seconds_since(moment: datetime, now: datetime | None) -> int:
    return max(int(((now or datetime.now(UTC)) - moment).total_seconds()), 0)
