"""Charts: figures of the last minutes with their units, as lines in a box; and ages in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Final

from examples.console.history import WINDOW_SECONDS, History, Point

WIDTH, HEIGHT = 600, 160
SPAN = f"{WINDOW_SECONDS // 60} minutes"


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A possible chart: the keys of its figures with their labels, the main one first."""

    title: str
    unit: Unit
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Line:
    """One figure over time; `path` is in the units of the chart, `latest` is empty in a gap."""

    label: str
    path: str
    latest: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines in a box of WIDTH by HEIGHT; `marks` are the figures at its top and in its middle."""

    title: str
    lines: Sequence[Line]
    marks: tuple[str, str]
    span: str = SPAN
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def summary(self) -> str:
        """The newest figures as a sentence."""
        told = ", ".join(f"{line.label.lower()} {line.latest or 'unknown'}" for line in self.lines)
        return f"{self.title} over {self.span}, of {self.marks[0]}: {told}."


def chart(history: History, kind: Kind, most: float = 0) -> Chart | None:
    """A line for every figure with recent values; None without any.

    `most` is the maximum, at the upper edge. Without it, or if a value exceeds it, the upper edge
    is a round figure above all values.
    """
    known = {key: found for key in kind.labels if (found := history.stretches(key))}
    if not known:
        return None
    points = [point for found in known.values() for stretch in found for point in stretch]
    highest = max(point.value for point in points)
    top = most if most and highest <= most else kind.unit.top(highest)
    lines = [
        Line(kind.labels[key], path(found, top), _latest(history, key, kind.unit))
        for key, found in known.items()
    ]
    marks = (kind.unit.told(top), kind.unit.told(top / 2))
    return Chart(kind.title, lines, marks)


def charts(history: History, most: Mapping[Kind, float]) -> list[Chart]:
    """The charts of kinds with recent values, each with its maximum."""
    drawn = (chart(history, kind, value) for kind, value in most.items())
    return [one for one in drawn if one is not None]


def _latest(history: History, key: str, unit: Unit) -> str:
    value = history.latest(key)
    return "" if value is None else unit.told(value)


def path(stretches: Sequence[Sequence[Point]], top: float) -> str:
    """A line for each stretch; one that is a single point is a dot."""
    return "".join(
        "L".join([f"M{_point(first, top)}h.1", *(_point(one, top) for one in rest)])
        for first, *rest in stretches
    )


def _point(point: Point, top: float) -> str:
    x = WIDTH * (1 - point.ago / WINDOW_SECONDS)
    y = HEIGHT * (1 - min(point.value / top, 1))
    return f"{x:.1f} {y:.1f}"


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
