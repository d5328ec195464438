"""Charts: figures over a span that ends now, as lines in a box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from examples.console.history import Point
from examples.console.scale import Unit

WIDTH, HEIGHT = 600, 160
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60))


class Series(Protocol):
    """Figures by key over the last `seconds`."""

    @property
    def seconds(self) -> int:
        """How far back they go."""
        ...

    def latest(self, key: str) -> float | None:
        """The figure as it is now; None when it is not known."""
        ...

    def stretches(self, key: str) -> Sequence[Sequence[Point]]:
        """The known values of a figure, oldest first, in stretches without gaps."""
        ...


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
    seconds: int
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def span(self) -> str:
        """The time it is about, in words."""
        name, length = next(unit for unit in _UNITS if self.seconds >= unit[1])
        count = self.seconds // length
        return f"{count} {name}{'s' if count > 1 else ''}"

    @property
    def begin(self) -> str:
        """The moment at its left edge."""
        return f"{self.span} ago"

    @property
    def summary(self) -> str:
        """The newest figures as a sentence."""
        told = ", ".join(f"{line.label.lower()} {line.latest or 'unknown'}" for line in self.lines)
        return f"{self.title} over {self.span}, of {self.marks[0]}: {told}."


def chart(history: Series, kind: Kind, most: float = 0) -> Chart | None:
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
        Line(kind.labels[key], path(found, top, history.seconds), _latest(history, key, kind.unit))
        for key, found in known.items()
    ]
    marks = (kind.unit.told(top), kind.unit.told(top / 2))
    return Chart(kind.title, lines, marks, history.seconds)


def _latest(history: Series, key: str, unit: Unit) -> str:
    value = history.latest(key)
    return "" if value is None else unit.told(value)


def path(stretches: Sequence[Sequence[Point]], top: float, seconds: int) -> str:
    """A line for each stretch; one that is a single point is a dot."""
    return "".join(
        "L".join(
            [f"M{_point(first, top, seconds)}h.1", *(_point(one, top, seconds) for one in rest)]
        )
        for first, *rest in stretches
    )


def _point(point: Point, top: float, seconds: int) -> str:
    x = WIDTH * (1 - point.ago / seconds)
    y = HEIGHT * (1 - min(point.value / top, 1))
    return f"{x:.1f} {y:.1f}"
