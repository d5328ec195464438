"""Figures of the last minutes, by key: a stretch in which one was not known is a gap."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

EVERY_SECONDS: Final = 2.0
"""The pause between two samples, as long as nobody looks more often."""
SHORTEST_PAUSE: Final = 1.0
"""Seconds between two samples, however many people look."""
GAP_SECONDS: Final = 3 * EVERY_SECONDS
"""Between samples further apart than this nothing is known."""
WINDOW_SECONDS: Final = 180
"""How far back samples are kept."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was known at one moment; `at` counts seconds."""

    at: float
    values: Mapping[str, float]


class Point(NamedTuple):
    """A figure, and how many seconds ago it was true."""

    ago: float
    value: float


class History:
    """The latest samples of one machine, a few hundred at the most."""

    seconds = WINDOW_SECONDS
    """How far back they go."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[Sample] = deque(maxlen=round(WINDOW_SECONDS / SHORTEST_PAUSE) + 1)

    @property
    def is_fresh(self) -> bool:
        """Whether something was read just now."""
        return self._age() < SHORTEST_PAUSE and bool(self._samples[-1].values)

    @property
    def is_current(self) -> bool:
        """Whether the last sample tells how things are, and not how they were before a gap."""
        return self._age() <= GAP_SECONDS

    def _age(self) -> float:
        return self._clock() - self._samples[-1].at if self._samples else float("inf")

    def add(self, values: Mapping[str, float]) -> None:
        """Keep what is known now; nothing is a gap."""
        if values or (self._samples and self._samples[-1].values):
            self._samples.append(Sample(self._clock(), values))

    def latest(self, key: str) -> float | None:
        """The figure as it is now; None when it is not known."""
        return self._samples[-1].values.get(key) if self.is_current else None

    def stretches(self, key: str) -> Sequence[Sequence[Point]]:
        """What is known of a figure, oldest first, broken where it was not known."""
        now, before = self._clock(), None
        found: list[list[Point]] = []
        for sample in self._samples:
            value, ago = sample.values.get(key), now - sample.at
            if value is None or ago > WINDOW_SECONDS:
                before = None
                continue
            if before is None or sample.at - before > GAP_SECONDS:
                found.append([])
            found[-1].append(Point(ago, value))
            before = sample.at
        return found
