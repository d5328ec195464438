"""The access tokens of one OIDC instance, each valid for as long as its caller needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeAlias

from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.flows.refresh import RefreshCoordinator
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.resume import require_refresh_token
from fastapi_oidc.flows.revocation import TOKEN_REVOCATION_SECONDS, record_id, revoke_access_token
from fastapi_oidc.grants.app_tokens import AppTokens
from fastapi_oidc.grants.holders import Holder
from fastapi_oidc.grants.own_token import own_token, refresh_if_needed, session_after
from fastapi_oidc.grants.proofs import Proofs
from fastapi_oidc.grants.records import TokenRecords
from fastapi_oidc.protocol.downstream import (
    DownstreamAPI,
    Target,
    on_behalf_of_grant,
    require_access_token,
    selected,
    token_exchange_grant,
)
from fastapi_oidc.protocol.issued_token import MIN_VALIDITY, IssuedToken, Needed
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.backend import StoredSession
from fastapi_oidc.session.model import Identity

Tokens: TypeAlias = Callable[[Needed], Coroutine[Any, Any, IssuedToken]]
"""Returns a token that meets the need."""

SUBJECT_SECONDS: Final = 30
"""Minimum remaining lifetime, in seconds, of the session's access token at an exchange."""

_ATTEMPTS: Final = 3
"""A concurrent caller's request may return a token that does not meet this caller's need."""


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
    """Gets the tokens of sessions: their own, and those for other APIs."""

    def __init__(
        self, party: RelyingParty[Identity], coordinator: RefreshCoordinator[Identity]
    ) -> None:
        self._party, self._coordinator = party, coordinator
        self._records = TokenRecords(party)
        self.proofs = Proofs(party.clock)
        self.of_application = AppTokens(party, self._records)

    def api(self, target: Target) -> DownstreamAPI | None:
        """The configured API for `target`; None for the session's own token.

        Raises ConfigurationError unless exactly one API matches.
        """
        return None if target.is_empty else selected(self._party.downstream_apis, target)

    async def token(
        self, holder: Holder[Identity], api: DownstreamAPI | None, needed: Needed
    ) -> IssuedToken:
        """A token of the session for `api`, or the session's own."""
        if api is None:
            return own_token((await self._fresh(holder, needed)).session)
        return await self._of_api(holder, api, needed, _ATTEMPTS)

    async def _of_api(
        self, holder: Holder[Identity], api: DownstreamAPI, needed: Needed, attempts: int
    ) -> IssuedToken:
        id = record_id((await holder.current()).session.id, api)
        known, generation = await self._records.look(id)
        if self._records.is_good(known, id, needed):
            return known
        try:
            token = await self._next(holder, api, id, generation)
        except OIDCError as error:
            self._records.failed(id, error)
            if self._records.is_good(known, id, needed):
                return known
            # The request of the first caller may have ended; this caller's may not.
            if error.code is not Code.SESSION_RESPONSE_STARTED or attempts == 1:
                raise
            return await self._of_api(holder, api, needed, attempts - 1)
        if attempts == 1 or self._records.is_good(token, id, needed):
            return token
        return await self._of_api(holder, api, needed, attempts - 1)

    async def aclose(self) -> None:
        """Wait for the token requests that were sent."""
        await self._records.aclose()

    async def _fresh(self, holder: Holder[Identity], needed: Needed) -> StoredSession[Identity]:
        """The session with an access token that meets the need."""
        stored = await holder.current()
        if needed.is_met_by(own_token(stored.session), self._party.clock.now()):
            return stored
        change = partial(refresh_if_needed, self._party, self._coordinator, needed=needed)
        return await holder.changed(change)

    async def _next(
        self, holder: Holder[Identity], api: DownstreamAPI, id: str, generation: int
    ) -> IssuedToken:
        if api.grant == "refresh_token":
            stored = await holder.current()
            obtain = partial(self._by_refresh_token, holder, api)
        else:
            stored = await self._fresh(holder, Needed(SUBJECT_SECONDS))
            obtain = partial(self._exchanged, holder, api, stored)
        discard, expires_at = partial(self._discard, stored), stored.session.expires_at
        return await self._records.next(id, generation, obtain, discard, expires_at=expires_at)

    async def _by_refresh_token(self, holder: Holder[Identity], api: DownstreamAPI) -> IssuedToken:
        """A token by the session's refresh token, which the provider may replace (RFC 8707 2.2)."""
        tokens: list[IssuedToken] = []

        async def change(stored: StoredSession[Identity]) -> StoredSession[Identity]:
            require_refresh_token(stored.session)
            outcome, answer = await self._coordinator.refresh_for(stored, api)
            if answer is not None:
                tokens.append(self._issued(api, stored, answer.response, answer.received_at))
            try:
                return session_after(self._party, stored, outcome)
            except SessionError:
                for token in tokens:
                    await self._discard(stored, token)
                raise

        await holder.changed(change)
        return tokens[0]

    async def _exchanged(
        self, holder: Holder[Identity], api: DownstreamAPI, stored: StoredSession[Identity]
    ) -> IssuedToken:
        """A token in exchange for the session's, unless the session has ended in the meantime."""
        own, is_exchange = stored.session.tokens, api.grant == "token_exchange"
        form = (token_exchange_grant if is_exchange else on_behalf_of_grant)(api, own.access_token)
        response = await self._party.provider.obtain(form, key=own.proof_key())
        require_access_token(response)
        token = self._issued(api, stored, response, self._party.clock.now())
        try:
            await holder.current()
        except SessionError:
            await self._discard(stored, token)
            raise
        return token

    def _issued(
        self,
        api: DownstreamAPI,
        stored: StoredSession[Identity],
        response: TokenResponse,
        received_at: int,
    ) -> IssuedToken:
        return IssuedToken.of(
            response,
            received_at=received_at,
            lifetime=self._party.policy.default_access_token_lifetime,
            scope=api.words,
            dpop_key=stored.session.tokens.dpop_key,
        )

    async def _discard(self, stored: StoredSession[Identity], token: IssuedToken) -> None:
        """Best effort: revoke a token that will not be used."""
        with suppress(OIDCError, TimeoutError):
            async with asyncio.timeout(TOKEN_REVOCATION_SECONDS):
                await revoke_access_token(self._party, stored.session, token)
