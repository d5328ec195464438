"""Lets one command at a time wait for a Redis that has not answered, and refuses the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PROBE_SECONDS: Final = 1.0
"""How long a Redis that has not answered may take when it is asked again."""

PROBE_INTERVAL: Final = 2.0
"""Seconds after which it is asked the next time: there is a pause in which nobody waits."""


class RedisMuteError(TimeoutError):
    """Not asked: Redis has not answered in time, and is asked by another command."""


class Circuit:
    """Which commands are sent, and how long each may take.

    Closed, every command is. It opens when one has no answer in time: from then on one command
    every two seconds is sent, which may take a second, and the others fail at once. An answer
    closes it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._is_open = False
        self._next_probe = 0.0

    def patience(self, seconds: float) -> float:
        """How long a command may take that is sent now, `seconds` at the most.

        Raises RedisMuteError when it is not to be sent.
        """
        if not self._is_open:
            return seconds
        now = self._clock()
        if now < self._next_probe:
            raise RedisMuteError
        self._next_probe = now + PROBE_INTERVAL
        return min(seconds, PROBE_SECONDS)

    def open(self) -> None:
        """A command had no answer in time; the next one may be the first to ask again."""
        self._is_open = True

    def close(self) -> None:
        """A command was answered."""
        self._is_open = False
