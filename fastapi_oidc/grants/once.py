"""Tokens that are obtained once for all tasks and processes that need them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeAlias

from fastapi_oidc.clock import Clock, TTLCache
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, OIDCError, ProviderError, SessionError
from fastapi_oidc.protocol.downstream import IssuedToken, Needed
from fastapi_oidc.protocol.refusal import TokenRefused
from fastapi_oidc.session.cells import Cells, Seen, Turn
from fastapi_oidc.session.rows import LEASE_SECONDS, Row

PATIENCE: Final = LEASE_SECONDS + 3.0
"""Seconds that a request waits for the token request of another process, which may have died."""

PAUSE_SECONDS: Final = 5
"""Seconds after a failure in which a token that can be sent is used without a new request: a
provider that does not respond would delay every call.
"""

MOST_PAUSED: Final = 10_000
"""Maximum number of failures in memory."""

ATTEMPTS: Final = 3
"""A concurrent caller's request may return a token that does not meet this caller's need."""

Obtain: TypeAlias = Callable[[], Coroutine[Any, Any, IssuedToken]]
Confirm: TypeAlias = Callable[[IssuedToken, bool], Coroutine[Any, Any, None]]


class Once:
    """Tokens with a row each. Such a token may be requested again, unlike the session's own.

    Raises SessionError while the store is unavailable.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._obtaining: SingleFlight[str, IssuedToken] = SingleFlight()
        self._paused: TTLCache[str, bool] = TTLCache(clock, max_entries=MOST_PAUSED)

    async def token(
        self,
        cells: Cells,
        key: str,
        needed: Needed,
        obtain: Obtain,
        *,
        expires_at: int,
        confirm: Confirm | None = None,
    ) -> IssuedToken:
        """A token that meets the need, from the row `key` or from `obtain`.

        While no new token is available, one that can be sent at all is. The row is stored until
        `expires_at` (seconds since the epoch). `confirm` gets a new token, and whether the row has
        it and not that of another attempt. It may raise.
        """
        for attempt in range(ATTEMPTS):
            seen, _ = await cells.see(key)
            known = _token_in(seen.row)
            if known and self._is_enough(known, key, needed):
                return known
            is_last, is_own = attempt == ATTEMPTS - 1, not self._obtaining.is_running(key)
            try:
                work = partial(_obtain, cells, key, seen, obtain, confirm, expires_at)
                token = await self._obtaining.run(key, work)
            except OIDCError as error:
                is_outage, now = _is_outage(error), self._clock.now()
                if known and is_outage and needed.is_served_by(known, now):
                    self._paused.set(key, True, expires_at=now + PAUSE_SECONDS)
                    return known
                # The request of the first caller may have ended, or its copy of the session is
                # refused; this caller's may not.
                is_of_caller = isinstance(error, SessionError) and not error.is_outage
                if is_own or is_last or not is_of_caller:
                    raise
            else:
                if is_last or needed.is_met_by(token, self._clock.now()):
                    return token
        raise AssertionError("unreachable")

    def _is_enough(self, known: IssuedToken, key: str, needed: Needed) -> bool:
        """Whether `known` meets the need or, shortly after a failure, can be sent at all."""
        now = self._clock.now()
        return needed.is_met_by(known, now) or (
            key in self._paused and needed.is_served_by(known, now)
        )

    async def alone(self, key: str, obtain: Obtain) -> IssuedToken:
        """A token from `obtain`, once for all tasks of this process."""
        return await self._obtaining.run(f"alone/{key}", obtain)

    async def aclose(self, seconds: float) -> None:
        """Wait for the requests under way."""
        await self._obtaining.wait(seconds)


def _is_outage(error: OIDCError) -> bool:
    """Whether a later attempt may succeed."""
    if isinstance(error, SessionError):
        return error.is_outage
    return isinstance(error, ProviderError) and not isinstance(error, TokenRefused)


async def _obtain(
    cells: Cells, key: str, known: Seen, obtain: Obtain, confirm: Confirm | None, expires_at: int
) -> IssuedToken:
    base = Row(generation=known.row.generation, expires_at=expires_at)
    turn = Turn(cells, key, base, known)
    while not turn.owns(row := await turn.take()):
        token = _token_in(row)
        if token is not None and row.generation > base.generation:
            return token
        if turn.waited > PATIENCE:
            explanation = "another process is still requesting the token"
            raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation)
        await turn.pause()
    try:
        async with turn.renewing():
            token = await obtain()
    except BaseException:
        await turn.last(turn.release)
        raise
    result = Row(content=token.encode(), expires_at=expires_at)
    await turn.last(partial(turn.finish, result))
    # An attempt that was paused has lost its row, perhaps to one that came first.
    row = turn.seen.row
    is_stored = row.generation == base.generation or row.content == result.content
    if confirm is not None:
        await confirm(token, is_stored)
    return token if is_stored else _token_in(row) or token


def _token_in(row: Row) -> IssuedToken | None:
    return IssuedToken.decode(row.content) if row.content else None
