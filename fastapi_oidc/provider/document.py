"""A document that the OpenID Provider (OP) publishes, at hand also while it cannot be asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Final, Generic, TypeVar

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.once import Expiring, Flights

T = TypeVar("T")
V = TypeVar("V")

FRESH_LIFETIME: Final = 3600
"""Seconds a fetched document is used before it is fetched again."""
STALE_LIFETIME: Final = 24 * 3600
"""Seconds the last known document is used while a new one cannot be had."""
STALE_PAUSE: Final = 60
"""Seconds the last known document is used after a failed fetch, before the next one is tried."""
STALE_PATIENCE: Final = 2.0
"""Seconds a caller waits for a new document at the most, when an old one is at hand."""
FAILURE_LIFETIME: Final = 5
"""Seconds during which a failed fetch is not tried again."""
MISS_INTERVAL: Final = 60
"""Seconds between two fetches that callers asked for before the document's time was over."""

_FETCH: Final = "fetch"
_FRESH: Final = "fresh"
_STALE: Final = "stale"
_LAST_KNOWN: Final = "last known"

_logger = logging.getLogger("fastapi_oidc.provider")


class Document(Generic[T]):
    """Fetched on first need, one fetch at a time for all callers, and kept.

    `name` says in the log what it is; `patience` is in seconds.
    """

    def __init__(
        self,
        name: str,
        fetch: Callable[[], Coroutine[object, object, T]],
        clock: Clock,
        *,
        patience: float = STALE_PATIENCE,
    ) -> None:
        self._name, self._fetch, self._clock, self._patience = name, fetch, clock, patience
        self._flights: Flights[str, T] = Flights()
        self._kept: Expiring[str, T] = Expiring(clock)
        self._failures: Expiring[str, ProviderError] = Expiring(clock)
        self._misses: Expiring[str, bool] = Expiring(clock)

    async def get(self) -> T:
        """The document: at most an hour old, or a day while a newer one cannot be had.

        Raises the ProviderError of a failed fetch, and provider.unavailable for five seconds after.
        """
        fresh = self._of(self._kept, _FRESH, FRESH_LIFETIME)
        if fresh is not None:
            return fresh
        last_known = self._of(self._kept, _LAST_KNOWN, STALE_LIFETIME)
        return await (self._fetched() if last_known is None else self._fetched_or(last_known))

    async def newer_than(self, seen: T, *, asker: str) -> T:
        """A document fetched after `seen`, or `seen` itself when it is too early to fetch again.

        The first miss fetches at once. After that one fetch a minute for each kind of asker, so
        that a stream of tokens with invented key ids is no stream of requests, and strangers cannot
        use up the fetch of others; one that failed may be tried again sooner.
        """
        newest = self._kept.get(_LAST_KNOWN)
        if newest is not None and newest is not seen:
            return newest
        is_early = self._of(self._misses, asker, MISS_INTERVAL)
        if is_early and not self._flights.is_under_way(_FETCH):
            return seen
        self._misses.set(asker, True, ends=self._clock.now() + MISS_INTERVAL)
        try:
            return await self._fetched()
        except ProviderError:
            self._misses.pop(asker)
            raise

    async def _fetched_or(self, last_known: T) -> T:
        """A new document if it can be had soon, else the last known one."""
        if self._of(self._failures, _STALE, STALE_PAUSE):
            return last_known
        try:
            async with asyncio.timeout(self._patience):
                return await self._fetched()
        except (ProviderError, TimeoutError):
            # The fetch goes on when nobody waits any more; a failure is logged where it ends.
            return last_known

    async def _fetched(self) -> T:
        failure = self._of(self._failures, _FETCH, FAILURE_LIFETIME)
        if failure is not None:
            raise ProviderError(
                Code.PROVIDER_UNAVAILABLE,
                f"not tried again within {FAILURE_LIFETIME} s of {failure}",
                **failure.details,
            ) from failure
        return await self._flights.run(_FETCH, self._fetch_and_keep)

    async def _fetch_and_keep(self) -> T:
        try:
            document = await self._fetch()
        except ProviderError as error:
            self._keep_failure(error)
            raise
        now = self._clock.now()
        self._kept.set(_FRESH, document, ends=now + FRESH_LIFETIME)
        self._kept.set(_LAST_KNOWN, document, ends=now + STALE_LIFETIME)
        return document

    def _keep_failure(self, error: ProviderError) -> None:
        now = self._clock.now()
        # A copy: the frames of the original's traceback hold the cookies of the request that asked.
        error = ProviderError(error.code, error.explanation, **error.details)
        # A caller that has stopped waiting cannot take its miss back.
        self._misses = Expiring(self._clock)
        self._failures.set(_FETCH, error, ends=now + FAILURE_LIFETIME)
        self._failures.set(_STALE, error, ends=now + STALE_PAUSE)
        age = now + STALE_LIFETIME - self._kept.ends(_LAST_KNOWN)
        if age < STALE_LIFETIME:
            _logger.warning("the last known %s serve, %d s old: %s", self._name, age, error.account)

    def _of(self, entries: Expiring[str, V], name: str, lifetime: int) -> V | None:
        """The entry; an end farther off than `lifetime` is from before a clock was set back."""
        farthest = self._clock.now() + lifetime
        return entries.get(name) if entries.ends(name) <= farthest else None
