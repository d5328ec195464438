"""Access tokens: of sessions, and of the application itself."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from fastapi_oidc.clock import Clock, TTLCache
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, OIDCError, ProviderError, SessionError
from fastapi_oidc.flows.refresh import refresh, refresh_for
from fastapi_oidc.flows.relying_party import Postponed, RelyingParty
from fastapi_oidc.flows.resume import live_after, require_refresh_token, unless_ended
from fastapi_oidc.flows.revocation import revoke_token, token_key
from fastapi_oidc.flows.sessions import ANY_EPOCH, ENDED_CODES, Found, Live, Over
from fastapi_oidc.flows.token_sessions import being_applied
from fastapi_oidc.grants import exchanges
from fastapi_oidc.grants.exchanges import own_token
from fastapi_oidc.protocol import downstream
from fastapi_oidc.protocol.downstream import ActorToken, DownstreamAPI, IssuedToken, Needed, Target
from fastapi_oidc.protocol.refusal import TokenRefused
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.provider.http import Proofs
from fastapi_oidc.session.cells import Seen, Turn
from fastapi_oidc.session.model import AnySession
from fastapi_oidc.session.rows import LEASE_SECONDS, Row
from fastapi_oidc.session.session_cookie import Copy

Tokens: TypeAlias = Callable[[Needed], Coroutine[Any, Any, IssuedToken]]
"""Returns a token that meets the need."""

Change: TypeAlias = Callable[[Live], Awaitable[Live]]
Obtain: TypeAlias = Callable[[], Coroutine[Any, Any, IssuedToken]]

SUBJECT_SECONDS: Final = 30
"""Minimum remaining lifetime, in seconds, of the session's access token at an exchange."""

PATIENCE: Final = LEASE_SECONDS + 3.0
"""Seconds that a request waits for the token request of another process, which may have died."""

MOST_TOKENS: Final = 10_000
"""Maximum number of tokens of callers and of the application that a process caches."""


class Holder(Protocol):
    """Provides a session, and delivers its changes. `party` serves it."""

    @property
    def party(self) -> RelyingParty:
        """One of the registrations that serve the session."""
        ...

    async def current(self) -> Live:
        """The current state of the session; raises SessionError when it has ended."""
        ...

    async def change(self, change: Change) -> Live:
        """The result of `change` for the session. The browser gets a cookie that leads to it.

        Raises SessionError when the session has ended, or with session.response_started when no
        cookie can be sent. Also raises what `change` raises.
        """
        ...


class Detached:
    """A session outside of its request. It can be changed where the store has it.

    One that `may_be_idle` is used for what its browser's idle timeout does not end.
    """

    def __init__(self, party: RelyingParty, copy: Copy, *, may_be_idle: bool = False) -> None:
        self.party, self._copy, self._may_be_idle = party, copy, may_be_idle

    async def current(self) -> Live:
        """See `Holder`."""
        found = await self.party.sessions.judge(self._copy)
        if self._may_be_idle:
            return _require_live(self.party, found)
        return require_session(unless_ended(self.party, found))

    async def change(self, change: Change) -> Live:
        """See `Holder`."""
        if not self.party.sessions.in_store:
            raise response_started()
        return await change(await self.current())


def require_session(live: Live | None) -> Live:
    """`live`; raises SessionError (session.required) when it is None."""
    if live is None:
        raise SessionError(Code.SESSION_REQUIRED, "the session has ended, or there is none")
    return live


def response_started() -> SessionError:
    """The error of a refresh whose cookie cannot be sent."""
    return SessionError(
        Code.SESSION_RESPONSE_STARTED,
        "the session is in a cookie, which only its request's response can replace, before "
        "it starts: get the token earlier, or use a session_store",
    )


class Actor(NamedTuple):
    """Who acts for a user: tokens are cached for each `name`; `token` is called for each one."""

    name: str
    token: Callable[[], Coroutine[Any, Any, ActorToken]]


class Grant:
    """A session's access to one API: `await grant.access_token()` returns a token for it.

    A grant works without a request, until the session ends.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens

    async def access_token(self, min_validity: int = downstream.MIN_VALIDITY) -> IssuedToken:
        """A token that is valid for `min_validity` seconds, refreshed if necessary.

        A token with a shorter lifetime is used for half of its lifetime. While no new token is
        available, any token that has not expired is used. Raises SessionError when the session has
        ended or is unavailable, ProviderError when the provider issues no token.
        """
        return await self.tokens(Needed(min_validity))


class Grants:
    """Gets tokens: a session's own, a session's for another API, a caller's, the application's.

    A session's token for another API has a row, which all processes share. Tokens of callers and of
    the application belong to no session: each process has its own.
    """

    def __init__(self, clock: Clock) -> None:
        self.proofs, self._clock = Proofs(clock), clock
        self.requests: SingleFlight[Hashable, IssuedToken] = SingleFlight()
        self._known: TTLCache[Hashable, IssuedToken] = TTLCache(clock, max_entries=MOST_TOKENS)

    async def token(
        self,
        session_id: str,
        holder: Holder,
        api: DownstreamAPI | None,
        needed: Needed,
        actor: Actor | None = None,
    ) -> IssuedToken:
        """A token of the session for `api`, or the session's own; `actor` uses it for the user."""
        if (session := being_applied(session_id)) is not None:
            return await exchanges.token_of_callback(holder.party.of(session), session, api)
        if api is None:
            _advise(holder.party, needed.url)
            return own_token((await self._fresh(holder, needed)).session)
        live = await holder.current()
        key = token_key(live.session.id, api, actor.name if actor else "")
        obtain = partial(self._obtain, holder, api, actor)
        return await self._of_row(holder.party, live, key, needed, obtain)

    async def of_application(
        self, party: RelyingParty, target: Target, needed: Needed
    ) -> IssuedToken:
        """A token of the application for `target` (RFC 6749 4.4); raises ProviderError."""
        obtain = partial(exchanges.obtain_for_application, party, target)
        return await self._of_process((*_client(party), target), needed, obtain)

    async def of_caller(
        self, party: RelyingParty, value: str, ends: int, api: DownstreamAPI, needed: Needed
    ) -> IssuedToken:
        """A token for `api` in exchange for a caller's access token, which expires at `ends`.

        The token for `api` may be valid for longer than the caller's. Raises ProtocolViolation
        (access_token.expired) when a new one is needed after `ends`, and ProviderError.
        """
        digest = hashlib.sha256(value.encode()).hexdigest()
        obtain = partial(exchanges.exchange_of_caller, party, api, value, ends)
        return await self._of_process((*_client(party), digest, api), needed, obtain)

    async def _of_process(self, key: Hashable, needed: Needed, obtain: Obtain) -> IssuedToken:
        """A token that belongs to no session, for all tasks of this process."""
        known = self._known.get(key)
        if known and needed.is_met_by(known, self._clock.now()):
            return known
        try:
            token = await self.requests.run(key, obtain)
        except ProviderError as error:
            if known and _is_outage(error) and needed.is_served_by(known, self._clock.now()):
                return known
            raise
        self._known.set(key, token, expires_at=token.expires_at or self._clock.now())
        return token

    async def _of_row(
        self, party: RelyingParty, live: Live, key: str, needed: Needed, obtain: Obtain
    ) -> IssuedToken:
        """A token of a session that meets the need, from the row `key` or from `obtain`.

        While no new token is available, one that can be sent at all is.
        """
        while True:
            seen, _ = await party.sessions.cells.see(key)
            known, this = _token_in(seen.row), object()
            if known and needed.is_met_by(known, self._clock.now()):
                return known
            work = partial(_obtain_in_turn, party, live, key, seen, obtain)
            task, first = self.requests.begin(key, this, work)
            try:
                token = await asyncio.shield(task)
            except OIDCError as error:
                is_outage = _is_outage(error)
                if known and is_outage and needed.is_served_by(known, self._clock.now()):
                    return known
                # The request of the first caller may have ended, or its copy of the session is
                # refused; this caller's may not.
                if first is this or is_outage or not isinstance(error, SessionError):
                    raise
            else:
                # That of a concurrent caller may not meet the need of this one.
                if first is this or needed.is_met_by(token, self._clock.now()):
                    return token

    async def _fresh(self, holder: Holder, needed: Needed) -> Live:
        """The session with an access token that meets the need."""
        live = await holder.current()
        if _meets(holder.party, live.session, needed):
            return live
        return await holder.change(partial(self._refresh, holder.party, needed))

    async def _refresh(self, party: RelyingParty, needed: Needed, live: Live) -> Live:
        """The session after a refresh. While none is possible, a token that can be sent is used."""
        if _meets(party, live.session, needed):
            return live
        serves = needed.is_served_by(own_token(live.session), party.clock.now())
        if live.session.tokens.refresh_token is None and serves:
            return live
        require_refresh_token(live.session)
        outcome = await refresh(
            party.of(live.session), live, lambda session: _meets(party, session, needed)
        )
        if isinstance(outcome, Postponed) and serves:
            return _require_live(party, await party.sessions.judge_again(live))
        return live_after(party, live, outcome)

    async def _obtain(self, holder: Holder, api: DownstreamAPI, actor: Actor | None) -> IssuedToken:
        """A token of a session for `api`, whose grant must be an exchange if there is an actor."""
        if api.grant == "refresh_token":
            return await self._by_refresh_token(holder, api)
        live = await self._fresh(holder, Needed(SUBJECT_SECONDS))
        party = holder.party.of(live.session)
        return await exchanges.exchange_of_session(party, api, live.session, actor and actor.token)

    async def _by_refresh_token(self, holder: Holder, api: DownstreamAPI) -> IssuedToken:
        """A token by the session's refresh token, which the provider may replace (RFC 8707 2.2)."""
        tokens: list[IssuedToken] = []

        async def change(live: Live) -> Live:
            require_refresh_token(live.session)
            party = holder.party.of(live.session)
            outcome, answer = await refresh_for(party, live, api)
            # Not the response of a refresh, whose tokens the session may take later.
            if answer is not None and answer.api:
                key, received_at = live.session.tokens.proof_key(), answer.received_at
                response = TokenResponse.read(answer.body)
                tokens.append(exchanges.issued(party, api, response, received_at, key))
            try:
                return live_after(party, live, outcome)
            except SessionError:
                for token in tokens:
                    await revoke_token(party, live.session, token.value, "access_token")
                raise

        await holder.change(change)
        return tokens[0]


def _client(party: RelyingParty) -> tuple[str | None, ...]:
    """What tells registrations apart: tenants may name the same client, and one has its secret."""
    settings = party.settings
    return settings.name, settings.issuer, settings.client_id, settings.base_url


def _advise(party: RelyingParty, url: str) -> None:
    """Log that a session's own token goes to an API for which there are others (RFC 8707 2)."""
    for resource in (each.resource for each in party.downstream_apis if each.has(url)):
        party.announcer.advise(
            "downstream_apis",
            f"the session's own token is sent to {resource}, which is one of them: write "
            f"oidc.auth(session, resource={resource!r}), or that in oidc.grant",
        )


def _meets(party: RelyingParty, session: AnySession, needed: Needed) -> bool:
    return needed.is_met_by(own_token(session), party.clock.now())


def _is_outage(error: OIDCError) -> bool:
    """Whether a later attempt may succeed."""
    if isinstance(error, SessionError):
        return error.is_outage
    return isinstance(error, ProviderError) and not isinstance(error, TokenRefused)


async def _obtain_in_turn(
    party: RelyingParty, live: Live, key: str, known: Seen, obtain: Obtain
) -> IssuedToken:
    """A token from `obtain`, which the row has from then on, or that of another process.

    The row is stored until the session's end.
    """
    expires_at = live.session.last_end
    base = Row(generation=known.row.generation, expires_at=expires_at)
    turn = Turn(party.sessions.cells, key, base, known)
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
    await _confirm(party, live, token, is_stored)
    return token if is_stored else _token_in(row) or token


def _token_in(row: Row) -> IssuedToken | None:
    return IssuedToken.decode(row.content) if row.content else None


async def _confirm(party: RelyingParty, live: Live, token: IssuedToken, is_stored: bool) -> None:
    """Revoke a new token if the session has ended, and raise SessionError then.

    A sign-out revokes only stored tokens. So this check follows the storing of the token.
    Callers share the token: a refused holder, as after a step-up, is no end of the session.
    """
    try:
        _require_live(party, await party.sessions.judge(live.copy._replace(epoch=ANY_EPOCH)))
    except SessionError as error:
        if not error.is_outage:
            await revoke_token(party, live.session, token.value, "access_token")
        raise
    if not is_stored:
        await revoke_token(party, live.session, token.value, "access_token")


def _require_live(party: RelyingParty, found: Found) -> Live:
    """The session, which may be idle; raises SessionError if it has ended."""
    if isinstance(found, Over):
        raise SessionError(ENDED_CODES[found.reason], "the session has ended")
    live = require_session(found)
    if party.clock.now() >= party.of(live.session).absolute_end_of(live.session):
        raise SessionError(Code.SESSION_EXPIRED, "the session has ended")
    return live
