"""Access tokens of the application itself, by client credentials (RFC 6749 4.4)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import ProviderError, SessionError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.grants.records import TokenRecords
from fastapi_oidc.protocol.downstream import Target, client_credentials_grant
from fastapi_oidc.protocol.issued_token import IssuedToken, Needed
from fastapi_oidc.ttl_cache import TTLCache

RECORD_SECONDS: Final = 24 * 3600
"""Minimum number of seconds for which a record is stored after its last change."""

MOST_TARGETS: Final = 1000
"""Maximum number of tokens that one process caches."""


class AppTokens:
    """Gets a token for each target and uses it until shortly before it expires.

    Processes that share refresh records share the tokens. While the records are unavailable, each
    process gets its own tokens.
    """

    def __init__(self, party: RelyingParty[Any], records: TokenRecords) -> None:
        self._party, self._records = party, records
        self._known: TTLCache[str, IssuedToken] = TTLCache(party.clock, max_entries=MOST_TARGETS)
        self._obtaining: SingleFlight[str, IssuedToken] = SingleFlight()

    async def token(self, target: Target, needed: Needed) -> IssuedToken:
        """A token for `target`; raises ProviderError."""
        policy = self._party.policy
        id = f"app/{target.key(policy.issuer, policy.client_id)}"
        token = self._known.get(id)
        if self._records.is_good(token, id, needed):
            return token
        try:
            return await self._obtaining.run(id, partial(self._from_records, id, target, needed))
        except ProviderError as error:
            self._records.failed(id, error)
            if self._records.is_good(token, id, needed):
                return token
            raise

    async def _from_records(self, id: str, target: Target, needed: Needed) -> IssuedToken:
        obtain = partial(self._obtained, target)
        try:
            token, generation = await self._records.look(id)
            if token is None or not needed.is_met_by(token, self._party.clock.now()):
                ends = self._party.clock.now() + RECORD_SECONDS
                token = await self._records.next(id, generation, obtain, _ignored, expires_at=ends)
        except SessionError:
            token = await obtain()
        if token.expires_at is not None:
            self._known.set(id, token, expires_at=token.expires_at)
        return token

    async def _obtained(self, target: Target) -> IssuedToken:
        response = await self._party.provider.obtain(client_credentials_grant(target))
        return IssuedToken.of(
            response,
            received_at=self._party.clock.now(),
            lifetime=self._party.policy.default_access_token_lifetime,
            scope=target.words,
        )


async def _ignored(token: IssuedToken) -> None:
    """Do nothing: the application's records are never ended."""
