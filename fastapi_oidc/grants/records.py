"""Tokens with their own record, obtained once for all tasks and processes that need them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeAlias, TypeGuard

from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, OIDCError, ProviderError, SessionError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.revocation import token_in
from fastapi_oidc.protocol.issued_token import IssuedToken, Needed
from fastapi_oidc.protocol.refusal import TokenRefused
from fastapi_oidc.session.record_hold import RecordHold
from fastapi_oidc.session.records import Phase, RefreshRecord
from fastapi_oidc.ttl_cache import TTLCache

HOLDS: Final = 2
"""A record is owned for this multiple of `provider_timeout`; a token request takes at most one."""

PAUSE_SECONDS: Final = 5
"""Seconds after a failure in which the last token is used, if possible, without a new request."""

MOST_PAUSED: Final = 10_000
"""Maximum number of failures in memory."""

Obtain: TypeAlias = Callable[[], Awaitable[IssuedToken]]
Discard: TypeAlias = Callable[[IssuedToken], Awaitable[None]]


class TokenRecords:
    """Looks up and obtains tokens whose requests may be repeated.

    Raises SessionError (session.lock_unavailable) while the records are unavailable.
    """

    def __init__(self, party: RelyingParty[Any]) -> None:
        self._party = party
        self._obtaining: SingleFlight[str, IssuedToken] = SingleFlight()
        self._paused: TTLCache[str, bool] = TTLCache(party.clock, max_entries=MOST_PAUSED)

    async def look(self, id: str) -> tuple[IssuedToken | None, int]:
        """The newest token of the record, even if it has expired, and its generation."""
        record = await self._party.records.look(id)
        _require_not_ended(record)
        return token_in(record), max(0, record.generation)

    async def next(
        self, id: str, generation: int, obtain: Obtain, discard: Discard, *, expires_at: int
    ) -> IssuedToken:
        """The token after `generation`, from `obtain` or from another process.

        The record is stored until `expires_at` (seconds since the epoch). A token that arrives
        after the end of the record is discarded.
        """
        work = partial(self._next, id, generation, obtain, discard, expires_at)
        return await self._obtaining.run(id, work)

    def is_good(self, token: IssuedToken | None, id: str, needed: Needed) -> TypeGuard[IssuedToken]:
        """Whether `token` meets the need or, shortly after a failure, can be sent at all."""
        if token is None:
            return False
        now = self._party.clock.now()
        return needed.is_met_by(token, now) or (
            id in self._paused and needed.is_served_by(token, now)
        )

    def failed(self, id: str, error: OIDCError) -> None:
        """Note that the next token could not be requested, because of `error`."""
        is_outage = isinstance(error, ProviderError) and not isinstance(error, TokenRefused)
        if is_outage or (isinstance(error, SessionError) and error.is_outage):
            self._paused.set(id, True, expires_at=self._party.clock.now() + PAUSE_SECONDS)

    async def aclose(self) -> None:
        """Wait for the requests under way."""
        await self._obtaining.wait(self._party.policy.provider_timeout)

    async def _next(
        self, id: str, generation: int, obtain: Obtain, discard: Discard, expires_at: int
    ) -> IssuedToken:
        seconds = HOLDS * self._party.policy.provider_timeout
        hold = self._party.hold(id, generation, expires_at, seconds=seconds)
        while True:
            record = await hold.take()
            if hold.owns(record):
                return await self._obtain_and_store(id, hold, obtain, discard)
            _require_not_ended(record)
            token = token_in(record)
            if token is not None and record.generation > generation:
                return token
            if hold.waited > seconds:
                explanation = "another process is still requesting the token"
                raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation)
            await hold.pause()

    async def _obtain_and_store(
        self, id: str, hold: RecordHold, obtain: Obtain, discard: Discard
    ) -> IssuedToken:
        try:
            token = await obtain()
        except BaseException:
            await hold.release()
            raise
        if not await hold.done(token.encode()):
            try:
                _require_not_ended(await self._party.records.look(id))
            except SessionError:
                await discard(token)
                raise
        return token


def _require_not_ended(record: RefreshRecord) -> None:
    """Raise SessionError if a sign-out has ended the record."""
    if record.phase is Phase.ENDED:
        raise SessionError(Code.SESSION_SIGNED_OUT, "the session has ended")
