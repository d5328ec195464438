"""A document of the OpenID Provider (OP), cached so that it is available in an outage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Final, Generic, TypeVar

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, ProviderError

T = TypeVar("T")

FRESH_LIFETIME: Final = 3600
"""Seconds for which a fetched document is used before it is fetched again."""
STALE_LIFETIME: Final = 24 * 3600
"""Seconds for which the last known document is used while a new one is unavailable."""
STALE_PAUSE: Final = 60
"""Seconds for which the last known document is used after a failed fetch, before the next."""
STALE_PATIENCE: Final = 2.0
"""Maximum seconds that a caller waits for a new document if there is an old one."""
FAILURE_LIFETIME: Final = 5
"""Seconds for which a failed fetch is not repeated."""
MISS_INTERVAL: Final = 60
"""Seconds between two fetches that callers request before the document expires."""

_logger = logging.getLogger("fastapi_oidc.provider")


class Document(Generic[T]):
    """Fetches a document when first needed, once for concurrent callers, and caches it.

    `name` is for the log. `patience` is the maximum wait, in seconds, with an old document.
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
        self._fetches: SingleFlight[None, T] = SingleFlight()
        self._newest: T | None = None
        self._failure: ProviderError | None = None
        # Seconds since the epoch; the misses by asker.
        self._fetched_at = self._failed_at = 0
        self._missed_at: dict[str, int] = {}

    async def get(self) -> T:
        """The document: at most an hour old, or a day while a newer one is unavailable.

        Raises the ProviderError of a failed fetch, and provider.unavailable for five seconds
        afterwards.
        """
        newest = self._newest
        if newest is not None and self._is_within(FRESH_LIFETIME, self._fetched_at):
            return newest
        if newest is not None and self._is_within(STALE_LIFETIME, self._fetched_at):
            return await self._fetch_or(newest)
        return await self._fetch_once()

    async def newer_than(self, seen: T, *, asker: str, pause: int = MISS_INTERVAL) -> T:
        """A document fetched after `seen`, or `seen` itself when it is too early to fetch again.

        The first miss fetches immediately. Later misses fetch once in `pause` seconds for each kind
        of `asker`, so that tokens with invented key ids do not cause a stream of requests, and
        requests to public routes do not use up the fetch of others. A failed fetch may be repeated
        sooner.
        """
        if self._newest is not None and self._newest is not seen:
            return self._newest
        missed_at = self._missed_at.get(asker)
        is_early = missed_at is not None and self._is_within(pause, missed_at)
        if is_early and not self._fetches.is_running(None):
            return seen
        self._missed_at[asker] = self._clock.now()
        try:
            return await self._fetch_once()
        except ProviderError:
            self._missed_at.pop(asker, None)
            raise

    async def _fetch_or(self, last_known: T) -> T:
        """A new document if it is available soon, else the last known one."""
        if self._has_failed_within(STALE_PAUSE):
            return last_known
        try:
            async with asyncio.timeout(self._patience):
                return await self._fetch_once()
        except (ProviderError, TimeoutError):
            # The fetch continues without a waiting caller. A failure is logged there.
            return last_known

    async def _fetch_once(self) -> T:
        if (failure := self._failure) is not None and self._has_failed_within(FAILURE_LIFETIME):
            raise ProviderError(
                Code.PROVIDER_UNAVAILABLE,
                f"not tried again within {FAILURE_LIFETIME} s of {failure}",
                **failure.details,
            ) from failure
        return await self._fetches.run(None, self._fetch_and_keep)

    async def _fetch_and_keep(self) -> T:
        try:
            document = await self._fetch()
        except ProviderError as error:
            self._keep_failure(error)
            raise
        self._newest, self._fetched_at, self._failure = document, self._clock.now(), None
        return document

    def _keep_failure(self, error: ProviderError) -> None:
        # A copy: the frames in the original's traceback contain the cookies of a request.
        self._failure = ProviderError(error.code, error.explanation, **error.details)
        self._failed_at = self._clock.now()
        # A caller that has stopped waiting cannot remove its miss.
        self._missed_at.clear()
        if self._newest is not None and self._is_within(STALE_LIFETIME, self._fetched_at):
            age = self._failed_at - self._fetched_at
            _logger.warning("using the last known %s, %d s old: %s", self._name, age, error.message)

    def _has_failed_within(self, seconds: int) -> bool:
        return self._failure is not None and self._is_within(seconds, self._failed_at)

    def _is_within(self, seconds: int, moment: int) -> bool:
        """Whether `moment` is less than `seconds` ago, and not in the future by a clock change."""
        return 0 <= self._clock.now() - moment < seconds
