"""A value fetched from the OpenID Provider (OP), kept for a while; so is a failure to fetch it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.provider.single_flight import SingleFlight

T = TypeVar("T")

VALUE_LIFETIME: Final = 3600
"""Seconds a fetched value is used before it is fetched again."""
FAILURE_LIFETIME: Final = 5
"""Seconds during which a failed fetch is not tried again."""
MISS_INTERVAL: Final = 60
"""Seconds between two renewals that callers asked for before the value's time was over."""


@dataclass(frozen=True, slots=True)
class _Moment(Generic[T]):
    of: T
    at: int

    def is_within(self, seconds: int, now: int) -> bool:
        """Whether less than `seconds` have passed; a clock that was set back counts as more."""
        return 0 <= now - self.at < seconds


class Remembered(Generic[T]):
    """Fetches on first need, one fetch at a time for all callers."""

    def __init__(self, fetch: Callable[[], Coroutine[object, object, T]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._flight: SingleFlight[T] = SingleFlight()
        self._value: _Moment[T] | None = None
        self._failure: _Moment[ProviderError] | None = None
        self._renewed: dict[str, _Moment[None]] = {}

    async def get(self) -> T:
        """The value, at most an hour old.

        Raises the ProviderError of a failed fetch, and provider.unavailable for five seconds after.
        """
        value = self._value
        if value and value.is_within(VALUE_LIFETIME, self._clock.now()):
            return value.of
        return await self._fetched()

    async def newer_than(self, seen: T, *, asker: str) -> T:
        """A value fetched after `seen`, or `seen` itself when it is too early to fetch again.

        The first miss fetches at once. After that one fetch a minute for each kind of asker, so
        that a stream of tokens with invented key ids is no stream of requests, and strangers cannot
        use up the fetch of others; one that failed may be tried again sooner.
        """
        value = self._value
        if value and value.of is not seen:
            return value.of
        if not self._flight.is_under_way and self._was_renewed_recently(asker):
            return seen
        self._renewed[asker] = _Moment(None, self._clock.now())
        try:
            return await self._fetched()
        except ProviderError:
            self._renewed.pop(asker, None)
            raise

    def _was_renewed_recently(self, asker: str) -> bool:
        renewed = self._renewed.get(asker)
        return renewed is not None and renewed.is_within(MISS_INTERVAL, self._clock.now())

    async def _fetched(self) -> T:
        self._require_no_recent_failure()
        return await self._flight.run(self._fetch_and_keep)

    def _require_no_recent_failure(self) -> None:
        failure = self._failure
        if failure and failure.is_within(FAILURE_LIFETIME, self._clock.now()):
            raise ProviderError(
                Code.PROVIDER_UNAVAILABLE,
                f"not tried again within {FAILURE_LIFETIME} seconds of {failure.of.code}",
                **failure.of.details,
            ) from failure.of

    async def _fetch_and_keep(self) -> T:
        try:
            value = await self._fetch()
        except ProviderError as error:
            self._failure = _Moment(error, self._clock.now())
            raise
        self._value = _Moment(value, self._clock.now())
        return value
