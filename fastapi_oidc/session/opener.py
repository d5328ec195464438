"""Opens what sessions are kept as: once for all requests of a page, and not once for each."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from fastapi_oidc.clock import Clock
from fastapi_oidc.once import Expiring

REMEMBERED: Final = 60
"""Seconds for which a text need not be opened again."""

LIMIT: Final = 1000
"""Texts remembered at the most; beyond it those that end first are forgotten."""

LARGEST: Final = 12 * 1024
"""Octets of a text and what it holds, as it was written; larger ones are opened each time."""

Sealed = TypeVar("Sealed", bound=Hashable)
Opened = TypeVar("Opened")


class Opener(Generic[Sealed, Opened]):
    """Opens texts with `read`, and remembers for a minute what they held.

    Opening is a function of text and key alone: remembered or not, the answer is the same. Whether
    the session behind it goes on is asked at every request. `read` returns what all who open the
    text are given, which nobody may be able to change, and the octets of both. What it refuses, it
    is asked for again the next time.
    """

    def __init__(self, read: Callable[[Sealed], tuple[Opened, int]], *, clock: Clock) -> None:
        self._read, self._clock = read, clock
        self._known: Expiring[Sealed, Opened] = Expiring(clock, max_entries=LIMIT)

    def open(self, sealed: Sealed) -> Opened:
        """What `sealed` holds; raises what `read` raises."""
        opened = self._known.get(sealed)
        return self._opened(sealed) if opened is None else opened

    def _opened(self, sealed: Sealed) -> Opened:
        opened, size = self._read(sealed)
        if size <= LARGEST:
            self._known.set(sealed, opened, ends=self._clock.now() + REMEMBERED)
        return opened
