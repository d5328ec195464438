"""Figures over the last minutes, as lines to draw: a stretch without samples is a gap."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

WINDOW_SECONDS: Final = 180
"""How far back a chart goes."""
GAP_SECONDS: Final = 10.0
"""Between samples further apart than this nothing is known, so no line is drawn."""
SHORTEST_PAUSE: Final = 1.0
"""Seconds between two samples, however many people look."""
WIDTH, HEIGHT = 600, 160


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read at one moment; `at` counts seconds."""

    at: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Line:
    """One figure over time; `path` is in the units of the chart, `latest` in that of the figure."""

    key: str
    label: str
    path: str
    latest: int


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines in a box of WIDTH by HEIGHT that ends now; `top` is at the upper edge."""

    title: str
    unit: str
    lines: Sequence[Line]
    top: int
    width: int = WIDTH
    height: int = HEIGHT
    minutes: int = WINDOW_SECONDS // 60

    @property
    def summary(self) -> str:
        """The newest figures as a sentence."""
        told = ", ".join(f"{line.label.lower()} {line.latest} {self.unit}" for line in self.lines)
        return f"{self.title} over {self.minutes} minutes, of {self.top} {self.unit}: {told}."


class History:
    """The latest samples of one machine, and the labels of their figures."""

    def __init__(
        self, labels: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._labels = labels
        self._clock = clock
        self._samples: deque[Sample] = deque(maxlen=round(WINDOW_SECONDS / SHORTEST_PAUSE) + 1)

    def add(self, values: Mapping[str, float]) -> None:
        """Keep `values`, unless the last sample is from just now."""
        now = self._clock()
        if not self._samples or now - self._samples[-1].at >= SHORTEST_PAUSE:
            self._samples.append(Sample(now, values))

    def clear(self) -> None:
        """Forget everything: the machine has gone."""
        self._samples.clear()

    def chart(self, title: str, unit: str, top: int) -> Chart | None:
        """A line for every figure that was read lately; None without samples."""
        now = self._clock()
        samples = [sample for sample in self._samples if now - sample.at <= WINDOW_SECONDS]
        lines = [_line(key, label, samples, now, top) for key, label in self._labels.items()]
        drawn = [line for line in lines if line is not None]
        return Chart(title, unit, drawn, top) if drawn else None


def _line(key: str, label: str, samples: Sequence[Sample], now: float, top: int) -> Line | None:
    known = [(one.at, one.values[key]) for one in samples if key in one.values]
    if not known:
        return None
    first = f"M{_point(*known[0], now, top)}h.1"
    rest = [
        f"{'M' if at - before > GAP_SECONDS else 'L'}{_point(at, value, now, top)}"
        for (before, _), (at, value) in pairwise(known)
    ]
    return Line(key, label, "".join([first, *rest]), round(known[-1][1]))


def _point(at: float, value: float, now: float, top: int) -> str:
    x = WIDTH * (1 - (now - at) / WINDOW_SECONDS)
    y = HEIGHT * (1 - min(value / max(top, 1), 1))
    return f"{x:.1f} {y:.1f}"
