"""Reads the time and applies the tolerated clock drift, for all of the library."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

DEFAULT_DRIFT: Final = 30
"""Seconds of tolerated drift between this clock and another one."""

LONGEST_DURATION: Final = 10 * 366 * 24 * 3600
"""Seconds: a longer `expires_in` counts as this long, and a longer `max_age` is refused."""


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment in seconds since the epoch, with the drift tolerated between two clocks.

    All checks of times in messages use these two methods, so no check adds its own leeway (OpenID
    Connect Core 2: "a few minutes" at most).
    """

    now: int
    drift: int = DEFAULT_DRIFT

    def is_past(self, moment: float) -> bool:
        """Whether `moment` has passed, even if this clock is `drift` seconds fast."""
        return moment <= self.now - self.drift

    def is_ahead(self, moment: float) -> bool:
        """Whether `moment` is in the future, even if this clock is `drift` seconds slow."""
        return moment > self.now + self.drift

    def distance(self, moment: float) -> str:
        """The difference between `moment` and this clock, for the log."""
        seconds = moment - self.now
        where = f"{seconds} s ahead of" if seconds > 0 else f"{-seconds} s ago by"
        return f"{where} this clock; clock_drift is {self.drift}"


@dataclass(frozen=True, slots=True)
class Clock:
    """Reads the time in seconds since the epoch. Tests can replace `read`."""

    drift: int = DEFAULT_DRIFT
    read: Callable[[], float] = time.time

    def now(self) -> int:
        """The current second."""
        return int(self.read())

    def instant(self) -> Instant:
        """The current second together with the tolerated drift."""
        return Instant(self.now(), self.drift)
