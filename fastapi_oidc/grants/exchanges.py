"""Tokens that may be requested again: of exchanges, and of the application itself.

All tasks and processes that need one make one request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from fastapi_oidc.clock import Clock, TTLCache
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import (
    Code,
    OIDCError,
    ProtocolViolation,
    ProviderError,
    SessionError,
    misconfigured,
)
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.protocol.downstream import (
    ActorToken,
    DownstreamAPI,
    IssuedToken,
    Needed,
    Target,
    client_credentials_grant,
    exchange_grant,
    require_access_token,
)
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.refusal import TokenRefused
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.cells import Cells, Seen, Turn
from fastapi_oidc.session.model import AnySession
from fastapi_oidc.session.rows import LEASE_SECONDS, Row


async def token_of_callback(
    party: RelyingParty, session: AnySession, api: DownstreamAPI | None
) -> IssuedToken:
    """A token for a callback that decides about this session, which is not stored yet."""
    if api is None:
        return own_token(session)
    if api.grant == "refresh_token":
        raise misconfigured("a callback that decides about a session cannot use its refresh token")
    return await exchange_of_session(party, api, session)


async def exchange_of_session(
    party: RelyingParty,
    api: DownstreamAPI,
    session: AnySession,
    actor: Callable[[], Awaitable[ActorToken]] | None = None,
) -> IssuedToken:
    """A token in exchange for the session's; `actor` returns the token of who acts for its user."""
    own, acting = session.tokens, None if actor is None else await actor()
    form = exchange_grant(api, own.access_token, acting)
    return await _obtain(party, api, form, own.proof_key())


def require_exchange(api: DownstreamAPI | None) -> None:
    """Raise ConfigurationError unless there is an API whose grant takes an actor (RFC 8693 2.1)."""
    if api is None or api.grant != "token_exchange":
        raise misconfigured("only a DownstreamAPI with grant='token_exchange' takes an actor")


async def exchange_of_caller(
    party: RelyingParty, api: DownstreamAPI, value: str, ends: int
) -> IssuedToken:
    """A token in exchange for a caller's; raises ProtocolViolation after its end."""
    if party.clock.now() >= ends:
        explanation = "the caller's token has expired, and only its client can get another"
        raise ProtocolViolation(Code.ACCESS_TOKEN_EXPIRED, explanation)
    return await _obtain(party, api, exchange_grant(api, value), _new_key(party))


async def obtain_for_application(party: RelyingParty, target: Target) -> IssuedToken:
    """A token of the application itself (RFC 6749 4.4)."""
    return await _obtain(party, target, client_credentials_grant(target), _new_key(party))


async def _obtain(
    party: RelyingParty, target: Target, form: Mapping[str, str], key: DPoPKey | None
) -> IssuedToken:
    response = await party.provider.obtain(form, key=key)
    require_access_token(response)
    return issued(party, target, response, party.clock.now(), key)


def _new_key(party: RelyingParty) -> DPoPKey | None:
    """A key for a token that belongs to no session, with the setting `dpop`."""
    return DPoPKey.new() if party.settings.dpop else None


def issued(
    party: RelyingParty,
    target: Target,
    response: TokenResponse,
    received_at: int,
    key: DPoPKey | None,
) -> IssuedToken:
    """The token in the response; what that leaves out is assumed (RFC 6749 5.1)."""
    lifetime = response.expires_in or party.settings.default_access_token_lifetime
    return IssuedToken(
        value=response.access_token,
        expires_at=received_at + lifetime,
        scope=tuple(target.scope) if response.scope is None else response.scope,
        token_type=response.token_type,
        issued_at=received_at,
        dpop_key=None if key is None else key.to_text(),
    )


def own_token(session: AnySession) -> IssuedToken:
    """The session's own access token; raises ConfigurationError if the session has none."""
    tokens = session.tokens
    if not tokens.access_token:
        raise misconfigured("before_session_persist removes the access token from sessions")
    return IssuedToken(
        value=tokens.access_token,
        expires_at=tokens.expires_at,
        scope=tokens.scope,
        token_type=tokens.token_type,
        issued_at=session.refreshed_at or session.created_at,
        dpop_key=tokens.dpop_key,
    )


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


class Once(SingleFlight[str, IssuedToken]):
    """Tokens with a row each. Such a token may be requested again, unlike the session's own.

    Raises SessionError while the store is unavailable.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
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
            is_last, is_own = attempt == ATTEMPTS - 1, not self.is_running(key)
            try:
                work = partial(_obtain_in_turn, cells, key, seen, obtain, confirm, expires_at)
                token = await self.run(key, work)
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


def _is_outage(error: OIDCError) -> bool:
    """Whether a later attempt may succeed."""
    if isinstance(error, SessionError):
        return error.is_outage
    return isinstance(error, ProviderError) and not isinstance(error, TokenRefused)


async def _obtain_in_turn(
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
