"""The only place that reads the time, and caches whose entries expire."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from threading import RLock
from typing import Final, Generic, TypeVar

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


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_REMOVALS_PER_WRITE: Final = 4
"""Maximum number of expired entries that a write removes; more than one, so none pile up."""

_SPARE_HEAP_ENTRIES: Final = 100


class TTLCache(Generic[Key, Value]):
    """A dictionary whose entries expire at a given second of `clock`.

    With `max_entries`, a new entry evicts the entry that expires first. Reading takes constant
    time, writing logarithmic time. Threads may share a cache: sync endpoints run in threads.
    """

    def __init__(self, clock: Clock, *, max_entries: int | None = None) -> None:
        self._clock, self._max_entries = clock, max_entries
        self._entries: dict[Key, tuple[int, Value]] = {}
        # A key that was set again is in the heap twice; only its current expiry counts.
        self._heap: list[tuple[int, int, Key]] = []
        self._serial = count()
        self._writing = RLock()

    def __len__(self) -> int:
        """The number of entries, including expired entries that are not removed yet."""
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        entry = self._entries.get(key)
        return entry is not None and self._clock.read() < entry[0]

    def get(self, key: Key) -> Value | None:
        """The value; None when the entry is missing or has expired."""
        entry = self._entries.get(key)
        return None if entry is None or self._clock.read() >= entry[0] else entry[1]

    def set(self, key: Key, value: Value, *, expires_at: int) -> None:
        """Store `value` until the second `expires_at`; it replaces an earlier value."""
        with self._writing:
            before = self._entries.get(key)
            self._entries[key] = (expires_at, value)
            if before is None or before[0] != expires_at:
                heappush(self._heap, (expires_at, next(self._serial), key))
            if self._heap[0][0] <= self._clock.read():
                self.remove_expired(_REMOVALS_PER_WRITE)
            if self._max_entries is not None and len(self._entries) > self._max_entries:
                self._remove_first()
            if len(self._heap) > 2 * len(self._entries) + _SPARE_HEAP_ENTRIES:
                alive = self._entries.items()
                self._heap = [(ends, next(self._serial), key) for key, (ends, _) in alive]
                heapify(self._heap)

    def pop(self, key: Key) -> Value | None:
        """Remove the entry and return its value; None when it has expired."""
        with self._writing:
            value = self.get(key)
            self._entries.pop(key, None)
            return value

    def remove_expired(self, limit: int) -> None:
        """Remove up to `limit` expired entries."""
        now = self._clock.read()
        with self._writing:
            for _ in range(limit):
                if not self._heap or now < self._heap[0][0]:
                    return
                self._pop_heap()

    def _remove_first(self) -> None:
        while not self._pop_heap():
            pass

    def _pop_heap(self) -> bool:
        """Pop the first item of the heap and remove its entry; False if the item was outdated."""
        expires_at, _, key = heappop(self._heap)
        entry = self._entries.get(key)
        if entry is None or entry[0] != expires_at:
            return False
        del self._entries[key]
        return True
