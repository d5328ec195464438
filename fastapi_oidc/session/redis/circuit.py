"""Lets one command at a time wait for a Redis that has not replied, and refuses the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PROBE_SECONDS: Final = 1.0
"""Seconds that a Redis which has not replied may take when it is asked again the first time."""

PROBE_PAUSE: Final = 1.0
"""Seconds between two such commands, in which nobody waits."""


class RedisMuteError(TimeoutError):
    """Not asked: Redis has not replied in time, and another command asks or has just asked."""


class Circuit:
    """Which commands are sent, and how long each may take.

    Closed, every command is. It opens when one has no reply in time: from then on one command at a
    time is sent, a second after the one before, and the others fail at once. The first one may take
    a second, each one after it twice as long as the one before, so that a Redis is found again that
    takes longer to reach. A reply closes it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.is_open = False
        self._limit = PROBE_SECONDS
        self._next_probe = 0.0

    @contextmanager
    def probe(self, seconds: float) -> Iterator[float]:
        """How long the command may take that is sent within, `seconds` at the most.

        Raises RedisMuteError when it is not to be sent.
        """
        now = self._clock()
        if now < self._next_probe:
            raise RedisMuteError
        limit = min(seconds, self._limit)
        self._limit *= 2
        self._next_probe = now + limit + PROBE_PAUSE
        try:
            yield limit
        finally:
            self._next_probe = self._clock() + PROBE_PAUSE

    def open(self) -> None:
        """A command had no reply in time; the next one may be the first to ask again."""
        self.is_open = True

    def close(self) -> None:
        """A command had a reply."""
        self.is_open = False
        self._limit = PROBE_SECONDS
