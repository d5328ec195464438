"""Charts: figures of the last minutes, as lines in a box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from examples.console.history import WINDOW_SECONDS, History, Point
from examples.console.scale import Unit

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
