"""Figures over hours and weeks: averages in the records, coarser the older they are."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from examples.console.history import History, Point
from examples.console.records import DAY_SECONDS, Records

FINE_SECONDS: Final = 60
COARSE_SECONDS: Final = 900
FINE_DAYS: Final = 2
"""How long averages of each minute are stored; then those of each quarter of an hour."""
FIGURE_DAYS: Final = 31
POINTS: Final = 180
"""The maximum number of points of a line."""
SPANS: Final[Mapping[str, tuple[int, str]]] = {
    "minutes": (180, "3 minutes"),
    "hour": (3600, "hour"),
    "day": (DAY_SECONDS, "day"),
    "week": (7 * DAY_SECONDS, "week"),
    "month": (FIGURE_DAYS * DAY_SECONDS, "month"),
}
"""The spans of charts, in seconds and in words."""


class Archive:
    """Averages of one machine's figures, stored for each minute."""

    def __init__(self, machine: str, records: Records) -> None:
        self._machine = machine
        self._records = records
        self._minute = 0
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._counts: defaultdict[str, int] = defaultdict(int)

    def add(self, values: Mapping[str, float]) -> None:
        """Add the newest figures; store a minute that has ended."""
        minute = int(time.time()) // FINE_SECONDS * FINE_SECONDS
        if minute != self._minute:
            self.flush()
            self._minute = minute
        for key, value in values.items():
            self._sums[key] += value
            self._counts[key] += 1

    def flush(self) -> None:
        """Store the current minute so far."""
        if self._sums:
            averages = {key: total / self._counts[key] for key, total in self._sums.items()}
            self._records.add_figures(self._machine, self._minute, FINE_SECONDS, averages)
        self._sums.clear()
        self._counts.clear()

    def past(self, seconds: int, now: History) -> Past:
        """The figures of the last `seconds`, with the latest ones of `now`."""
        return Past(self._machine, self._records, seconds, now)


class Past:
    """Figures of a long time, as a chart takes them."""

    def __init__(self, machine: str, records: Records, seconds: int, now: History) -> None:
        self._machine = machine
        self._records = records
        self.seconds = seconds
        self._now = now

    def latest(self, key: str) -> float | None:
        """The figure as it is now; None when it is not known."""
        return self._now.latest(key)

    def stretches(self, key: str) -> Sequence[Sequence[Point]]:
        """The known values of a figure, oldest first, in stretches without gaps."""
        now = time.time()
        step = math.ceil(self.seconds / POINTS / FINE_SECONDS) * FINE_SECONDS
        longest = 2 * max(step, COARSE_SECONDS if self.seconds > FINE_DAYS * DAY_SECONDS else step)
        found: list[list[Point]] = []
        before = -math.inf
        for at, value in self._records.figures(self._machine, key, now - self.seconds, step):
            if at - before > longest:
                found.append([])
            found[-1].append(Point(min(max(now - at - step / 2, 0), self.seconds), value))
            before = at
        return found


def tidy(records: Records) -> None:
    """Make old figures coarser, and delete those that are too old; give up what never ended."""
    records.coarsen(FINE_SECONDS, COARSE_SECONDS, time.time() - FINE_DAYS * DAY_SECONDS)
    records.expire(FIGURE_DAYS)
    records.give_up_pending(older=DAY_SECONDS)
