"""Opens what is sealed: once for all requests of a page, and not once for each."""

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
"""Octets of a text and what it holds; what is larger is opened at every request."""

Sealed = TypeVar("Sealed", bound=Hashable)
Opened = TypeVar("Opened")


class Opener(Generic[Sealed, Opened]):
    """Opens sealed texts with `read`, and remembers for a minute what they held.

    Opening is a function of text and key alone: remembered or not, the answer is the same. Whether
    the session behind it goes on is asked at every request. What `read` returns is shared by all
    who open the text, so nobody may be able to change it; `size` tells its octets. What `read`
    refuses is refused again the next time.
    """

    def __init__(
        self,
        read: Callable[[Sealed], Opened],
        *,
        size: Callable[[Sealed, Opened], int],
        clock: Clock,
    ) -> None:
        self._read, self._size, self._clock = read, size, clock
        self._known: Expiring[Sealed, Opened] = Expiring(clock, max_entries=LIMIT)

    def open(self, sealed: Sealed) -> Opened:
        """What `sealed` holds; raises what `read` raises."""
        opened = self._known.get(sealed)
        return self._opened(sealed) if opened is None else opened

    def _opened(self, sealed: Sealed) -> Opened:
        opened = self._read(sealed)
        if self._size(sealed, opened) <= LARGEST:
            self._known.set(sealed, opened, ends=self._clock.now() + REMEMBERED)
        return opened
