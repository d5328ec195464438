"""The only place that reads the time, and the only one that knows about clock drift."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

DEFAULT_DRIFT = 30


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment in seconds since the epoch, with the drift tolerated between two clocks.

    Every time rule of every message uses these two questions, so that no check adds a leeway of
    its own (OpenID Connect Core 2, "a few minutes" at the most).
    """

    now: int
    drift: int = DEFAULT_DRIFT

    def is_past(self, moment: float) -> bool:
        """Whether `moment` is over, also when this clock is `drift` seconds fast."""
        return moment <= self.now - self.drift

    def is_ahead(self, moment: float) -> bool:
        """Whether `moment` is to come, also when this clock is `drift` seconds slow."""
        return moment > self.now + self.drift

    def distance(self, moment: float) -> str:
        """How far `moment` is from this clock, for the log."""
        seconds = moment - self.now
        where = f"{seconds} s ahead of" if seconds > 0 else f"{-seconds} s ago by"
        return f"{where} this clock; clock_drift is {self.drift}"


@dataclass(frozen=True, slots=True)
class Clock:
    """Reads the time in seconds since the epoch; tests give it another `read`."""

    drift: int = DEFAULT_DRIFT
    read: Callable[[], float] = time.time

    def now(self) -> int:
        """The current second."""
        return int(self.read())

    def instant(self) -> Instant:
        """The current second together with the tolerated drift."""
        return Instant(self.now(), self.drift)
