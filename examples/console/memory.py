"""The balloon's statistics over the last minutes, as lines to draw."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from generated_vmm import BalloonStats

KEPT_SAMPLES: Final = 90
SHORTEST_PAUSE: Final = 1.0
"""Seconds between two samples, however many people look."""
WIDTH, HEIGHT = 600, 160
_BYTES_PER_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading; `at` counts seconds."""

    at: float
    stats: BalloonStats


@dataclass(frozen=True, slots=True)
class Line:
    """One figure over time; `points` are in the units of the chart, `latest` is in MiB."""

    key: str
    label: str
    points: str
    latest: int


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines in a box of WIDTH by HEIGHT; `top` MiB are at the upper edge."""

    lines: Sequence[Line]
    top: int
    seconds: int
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def summary(self) -> str:
        """The newest figures as a sentence."""
        figures = ", ".join(f"{line.label.lower()} {line.latest} MiB" for line in self.lines)
        return f"Memory over {self.seconds} seconds, of {self.top} MiB: {figures}."


class MemoryHistory:
    """The latest samples of one machine; a restart begins anew."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[Sample] = deque(maxlen=KEPT_SAMPLES)

    def add(self, stats: BalloonStats) -> None:
        """Keep `stats`, unless the last sample is from just now."""
        now = self._clock()
        if not self._samples or now - self._samples[-1].at >= SHORTEST_PAUSE:
            self._samples.append(Sample(now, stats))

    def clear(self) -> None:
        """Forget everything: the machine has gone."""
        self._samples.clear()

    def chart(self, total_mib: int) -> Chart | None:
        """Lines for every figure the guest gives; None without samples."""
        if not self._samples:
            return None
        lines = [_line(key, label, list(self._samples), total_mib) for key, label in _FIGURES]
        seconds = round(self._samples[-1].at - self._samples[0].at)
        return Chart([line for line in lines if line], total_mib, seconds)


_FIGURES: Final = (
    ("available_memory", "Available"),
    ("free_memory", "Free"),
    ("actual_mib", "In the balloon"),
)


def _line(key: str, label: str, samples: Sequence[Sample], total_mib: int) -> Line | None:
    known = [(sample.at, _mib(sample.stats, key)) for sample in samples]
    values = [(at, mib) for at, mib in known if mib is not None]
    if not values:
        return None
    began, ended = samples[0].at, samples[-1].at
    points = " ".join(f"{_x(at, began, ended):.1f},{_y(mib, total_mib):.1f}" for at, mib in values)
    return Line(key, label, points, round(values[-1][1]))


def _mib(stats: BalloonStats, key: str) -> float | None:
    value: int | None = getattr(stats, key)
    if value is None or key == "actual_mib":
        return value
    return value / _BYTES_PER_MIB


def _x(at: float, began: float, ended: float) -> float:
    return WIDTH * (at - began) / (ended - began) if ended > began else WIDTH


def _y(mib: float, total_mib: int) -> float:
    return HEIGHT * (1 - min(mib / max(total_mib, 1), 1))
