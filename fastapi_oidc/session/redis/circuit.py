"""A circuit breaker: while Redis does not respond, one probe at a time is sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PROBE_SECONDS: Final = 1.0
"""Time limit of the first probe, in seconds; it doubles with each further probe."""

PROBE_PAUSE: Final = 1.0
"""Seconds between two probes, in which every command fails immediately."""


class RedisUnresponsiveError(TimeoutError):
    """The command was not sent: Redis has not responded, and the next probe is not due."""


class Circuit:
    """Decides which commands are sent, and the time limit of each.

    While it is closed, every command is sent. It opens when a command has no reply in time: then
    one command at a time is sent as a probe, PROBE_PAUSE after the previous one, and the others
    fail immediately. The time limit of probes grows, so a slow Redis is found again. A reply closes
    it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.is_open = False
        self._limit = PROBE_SECONDS
        self._next_probe = 0.0

    @contextmanager
    def probe(self, seconds: float) -> Iterator[float]:
        """The time limit of the command that is sent within the block, at most `seconds`.

        Raises RedisUnresponsiveError if no probe is due.
        """
        now = self._clock()
        if now < self._next_probe:
            raise RedisUnresponsiveError("it has not responded, and was not asked again")
        limit = min(seconds, self._limit)
        self._limit *= 2
        self._next_probe = now + limit + PROBE_PAUSE
        try:
            yield limit
        finally:
            self._next_probe = self._clock() + PROBE_PAUSE

    def open(self) -> None:
        """A command had no reply in time; the next command may be the first probe."""
        self.is_open = True

    def close(self) -> None:
        """A command had a reply."""
        self.is_open = False
        self._limit = PROBE_SECONDS
