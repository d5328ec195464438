"""The access tokens of one relying party: of its sessions, and of the application itself."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeAlias

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.flows.outcomes import Ended, Outcome, Postponed, Refreshed
from fastapi_oidc.flows.refresh import RefreshCoordinator
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.resume import ENDED_CODES, require_refresh_token, unavailable_until
from fastapi_oidc.flows.revocation import revoke_access_token, token_key
from fastapi_oidc.flows.sessions import Live
from fastapi_oidc.flows.token_sessions import being_applied
from fastapi_oidc.grants.holders import Holder
from fastapi_oidc.grants.once import Once
from fastapi_oidc.grants.proofs import Proofs
from fastapi_oidc.protocol.downstream import (
    ActorToken,
    DownstreamAPI,
    Target,
    client_credentials_grant,
    on_behalf_of_grant,
    require_access_token,
    selected,
    token_exchange_grant,
)
from fastapi_oidc.protocol.issued_token import MIN_VALIDITY, IssuedToken, Needed
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.ttl_cache import TTLCache

Tokens: TypeAlias = Callable[[Needed], Coroutine[Any, Any, IssuedToken]]
"""Returns a token that meets the need."""

SUBJECT_SECONDS: Final = 30
"""Minimum remaining lifetime, in seconds, of the session's access token at an exchange."""

ROW_SECONDS: Final = 24 * 3600
"""Seconds for which the application's own tokens are stored after their last change."""

MOST_TARGETS: Final = 1000
"""Maximum number of the application's own tokens that one process caches."""


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

    async def access_token(self, min_validity: int = MIN_VALIDITY) -> IssuedToken:
        """A token that is valid for `min_validity` seconds, refreshed if necessary.

        A token with a shorter lifetime is used for half of its lifetime. While no new token is
        available, any token that has not expired is used. Raises SessionError when the session has
        ended or is unavailable, ProviderError when the provider issues no token.
        """
        return await self.tokens(Needed(min_validity))


class Grants(Generic[Identity]):
    """Gets tokens: a session's own, a session's for another API, and the application's."""

    def __init__(
        self, party: RelyingParty[Identity], coordinator: RefreshCoordinator[Identity]
    ) -> None:
        self._party, self._coordinator = party, coordinator
        self._once = Once(party.sessions.cells, party.clock)
        self._of_application: TTLCache[str, IssuedToken] = TTLCache(
            party.clock, max_entries=MOST_TARGETS
        )
        self.proofs = Proofs(party.clock)

    def api(self, target: Target) -> DownstreamAPI | None:
        """The configured API for `target`; None for the session's own token.

        Raises ConfigurationError unless exactly one API matches.
        """
        return None if target.is_empty else selected(self._party.downstream_apis, target)

    async def token(
        self,
        session_id: str,
        holder: Holder[Identity],
        api: DownstreamAPI | None,
        needed: Needed,
        actor: Actor | None = None,
    ) -> IssuedToken:
        """A token of the session for `api`, or the session's own; `actor` uses it for the user."""
        if (session := being_applied(session_id)) is not None:
            return await self._of_callback(session, api)
        if api is None:
            return own_token((await self._fresh(holder, needed)).session)
        live = await holder.current()
        obtain = partial(self._obtain, holder, api, actor)
        confirm = partial(self._require_live, holder, live.session)
        key, ends = token_key(live.id, api, actor.name if actor else ""), live.session.last_end
        return await self._once.token(key, needed, obtain, expires_at=ends, confirm=confirm)

    async def of_application(self, target: Target, needed: Needed) -> IssuedToken:
        """A token of the application for `target` (RFC 6749 4.4); raises ProviderError.

        While the store is unavailable, each process gets its own tokens.
        """
        settings, now = self._party.settings, self._party.clock.now()
        key = f"app/{target.key(settings.issuer, settings.client_id)}"
        token = self._of_application.get(key)
        if self._once.is_good(token, key, needed):
            return token
        obtain = partial(self._obtain_for_application, target)
        try:
            token = await self._once.token(key, needed, obtain, expires_at=now + ROW_SECONDS)
        except SessionError:
            token = await self._once.alone(key, obtain)
        if token.expires_at is not None:
            self._of_application.set(key, token, expires_at=token.expires_at)
        return token

    async def aclose(self) -> None:
        """Wait for the token requests that were sent."""
        await self._once.aclose(self._party.settings.provider_timeout)

    async def _fresh(self, holder: Holder[Identity], needed: Needed) -> Live[Identity]:
        """The session with an access token that meets the need."""
        live = await holder.current()
        if self._meets(live.session, needed):
            return live
        return await holder.change(partial(self._refresh, needed=needed))

    async def _refresh(self, live: Live[Identity], needed: Needed) -> Live[Identity]:
        """The session after a refresh. While none is possible, a token that can be sent is used."""
        if self._meets(live.session, needed):
            return live
        serves = needed.is_served_by(own_token(live.session), self._party.clock.now())
        if live.session.tokens.refresh_token is None and serves:
            return live
        require_refresh_token(live.session)
        outcome = await self._coordinator.refresh(
            self._party, live, lambda session: self._meets(session, needed)
        )
        if isinstance(outcome, Postponed) and serves:
            return live
        return self._after(live, outcome)

    def _meets(self, session: OIDCSession[Identity], needed: Needed) -> bool:
        return needed.is_met_by(own_token(session), self._party.clock.now())

    def _after(self, live: Live[Identity], outcome: Outcome[Identity]) -> Live[Identity]:
        """The session after an attempt to refresh it; raises SessionError without one."""
        match outcome:
            case Refreshed(refreshed):
                return refreshed
            case Ended(code, because, reason):
                session = live.session
                self._party.sessions.announce_end(session.id, session.sub, code, because)
                raise SessionError(ENDED_CODES[reason or "signed_out"], "the session has ended")
            case Postponed():
                raise unavailable_until(self._party, outcome)

    async def _obtain(
        self, holder: Holder[Identity], api: DownstreamAPI, actor: Actor | None
    ) -> IssuedToken:
        """A token of a session for `api`."""
        if actor is not None and api.grant != "token_exchange":
            explanation = "only a DownstreamAPI with grant='token_exchange' takes an actor"
            raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
        if api.grant == "refresh_token":
            return await self._by_refresh_token(holder, api)
        live = await self._fresh(holder, Needed(SUBJECT_SECONDS))
        return await self._exchange(api, live.session, actor)

    async def _require_live(
        self, holder: Holder[Identity], session: OIDCSession[Identity], token: IssuedToken
    ) -> None:
        """Revoke a new token if the session has ended meanwhile; raises SessionError.

        A sign-out revokes the tokens that are stored, so this comes after the token is.
        """
        try:
            await holder.current()
        except SessionError as error:
            if not error.is_outage:
                await revoke_access_token(self._party, session, token)
            raise

    async def _by_refresh_token(self, holder: Holder[Identity], api: DownstreamAPI) -> IssuedToken:
        """A token by the session's refresh token, which the provider may replace (RFC 8707 2.2)."""
        tokens: list[IssuedToken] = []

        async def change(live: Live[Identity]) -> Live[Identity]:
            require_refresh_token(live.session)
            outcome, answer = await self._coordinator.refresh_for(self._party, live, api)
            if answer is not None:
                token = self._issued(api, live.session, answer.response(), answer.received_at)
                tokens.append(token)
            try:
                return self._after(live, outcome)
            except SessionError:
                for token in tokens:
                    await revoke_access_token(self._party, live.session, token)
                raise

        await holder.change(change)
        return tokens[0]

    async def _exchange(
        self, api: DownstreamAPI, session: OIDCSession[Identity], actor: Actor | None = None
    ) -> IssuedToken:
        """A token in exchange for the session's (RFC 8693, or on behalf of its user)."""
        own = session.tokens
        if api.grant == "token_exchange":
            acting = await actor.token() if actor else None
            form = token_exchange_grant(api, own.access_token, acting)
        else:
            form = on_behalf_of_grant(api, own.access_token)
        response = await self._party.provider.obtain(form, key=own.proof_key())
        require_access_token(response)
        return self._issued(api, session, response, self._party.clock.now())

    async def _of_callback(
        self, session: OIDCSession[Identity], api: DownstreamAPI | None
    ) -> IssuedToken:
        """A token for a callback that decides about this session, which is not stored yet."""
        if api is None:
            return own_token(session)
        if api.grant == "refresh_token":
            explanation = "a callback that decides about a session cannot use its refresh token"
            raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
        return await self._exchange(api, session)

    def _issued(
        self,
        api: DownstreamAPI,
        session: OIDCSession[Identity],
        response: TokenResponse,
        received_at: int,
    ) -> IssuedToken:
        return IssuedToken.of(
            response,
            received_at=received_at,
            lifetime=self._party.settings.default_access_token_lifetime,
            scope=api.words,
            dpop_key=session.tokens.dpop_key,
        )

    async def _obtain_for_application(self, target: Target) -> IssuedToken:
        response = await self._party.provider.obtain(client_credentials_grant(target))
        return IssuedToken.of(
            response,
            received_at=self._party.clock.now(),
            lifetime=self._party.settings.default_access_token_lifetime,
            scope=target.words,
        )


def own_token(session: OIDCSession[Identity]) -> IssuedToken:
    """The session's own access token; raises ConfigurationError if the session has none."""
    tokens = session.tokens
    if not tokens.access_token:
        explanation = "before_session_persist removes the access token from sessions"
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
    return IssuedToken(
        value=tokens.access_token,
        expires_at=tokens.expires_at,
        scope=tokens.scope,
        token_type=tokens.token_type,
        issued_at=session.refreshed_at or session.created_at,
        dpop_key=tokens.dpop_key,
    )
