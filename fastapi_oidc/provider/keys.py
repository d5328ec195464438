"""Verifies signatures of the OpenID Provider (OP), with keys that are updated on rotation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.jose.algorithms import ALGORITHMS
from fastapi_oidc.protocol.jose.compact import CompactJWS
from fastapi_oidc.protocol.jose.keys import JsonWebKeySet
from fastapi_oidc.protocol.jose.verify import Unverified, verified_claims
from fastapi_oidc.protocol.json import Claims
from fastapi_oidc.protocol.metadata import ProviderMetadata
from fastapi_oidc.provider.client_endpoints import Registration
from fastapi_oidc.provider.document import MISS_INTERVAL, STALE_PATIENCE, Document
from fastapi_oidc.provider.http import HTTPClient

Sender: TypeAlias = Literal["provider", "anybody"]
"""The origin of a token: a response of the provider, or a request to a public route."""

UNKNOWN_KEY_INTERVAL: Final = 10
"""Seconds between two fetches because of unknown keys in requests, for all requests together."""

_ACCEPT: Final = "application/jwk-set+json, application/json"


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A JWT with a valid signature of the OP; its claims are not checked yet."""

    header_typ: str | None
    algorithm: str
    claims: Claims = field(repr=False)


class Undecided(ProviderError):
    """The current keys do not verify a token, and newer keys are not available yet.

    The code is jws.key_missing or jws.signature. The same token may verify later. `is_by_new_keys`:
    the keys were just fetched.
    """

    is_by_new_keys = False


class TokenVerifier:
    """Verifies tokens with the OP's published keys, or with the client secret if HS* is pinned."""

    def __init__(
        self,
        http: HTTPClient,
        metadata: Document[ProviderMetadata],
        clock: Clock,
        registration: Registration,
        *,
        patience: float = STALE_PATIENCE,
    ) -> None:
        self._http, self._metadata, self._registration = http, metadata, registration
        self._keys = Document("keys", self._fetch, clock, patience=patience)

    async def prepare(self) -> None:
        """Make sure that keys are available; raises ProviderError when there are none."""
        if _need_keys(self._registration.algorithms):
            await self._keys.get()

    async def verify(
        self,
        token: str,
        *,
        sender: Sender = "provider",
        algorithms: frozenset[str] | None = None,
        setting: str = "id_token_signing_algorithms",
    ) -> VerifiedToken:
        """The claims of a token with a valid signature by one of the pinned `algorithms`.

        The default `algorithms` are those of ID tokens; `setting` is the name of their setting. If
        no key verifies the token, the keys are fetched again, because the OP may have added a key
        or replaced one with the same name (OpenID Connect Core 10.1.1). Raises ProtocolViolation
        (`jws` codes), Undecided, or the ProviderError of unavailable keys.
        """
        secret = self._registration.client_secret
        jws, pinned = CompactJWS.parse(token), algorithms or self._registration.algorithms

        def verify_with(keys: JsonWebKeySet) -> VerifiedToken:
            claims = verified_claims(
                jws, keys, algorithms=pinned, client_secret=secret, setting=setting
            )
            return VerifiedToken(jws.typ, jws.algorithm, claims)

        if not _need_keys(pinned):
            return verify_with(JsonWebKeySet(()))
        return await self._verify(verify_with, sender)

    async def _verify(
        self, verify_with: Callable[[JsonWebKeySet], VerifiedToken], sender: Sender
    ) -> VerifiedToken:
        """Verify with the current keys, else with newer ones.

        Only the provider's own token can be `Undecided`. In a request it is refused: otherwise
        anybody could make the application answer that the provider is unavailable.
        """
        keys, is_own = await self._keys.get(), sender == "provider"
        try:
            return verify_with(keys)
        except Unverified as miss:
            newer = await self._newer(keys, miss, sender)
            if newer is keys and is_own:
                raise _undecided(miss, "too early to fetch the provider's keys again") from None
            if newer is keys:
                raise
        try:
            return verify_with(newer)
        except Unverified as miss:
            # A wrong signature is final, but a key may sign before all servers of the OP publish
            # it.
            if miss.code is Code.JWS_SIGNATURE or not is_own:
                raise
            undecided = _undecided(miss, "the provider's keys were fetched again")
            undecided.is_by_new_keys = True
            raise undecided from None

    async def _newer(self, keys: JsonWebKeySet, miss: Unverified, sender: Sender) -> JsonWebKeySet:
        """Newer keys, or `keys`. Wrong signatures never use up the fetch for unknown keys."""
        is_known = miss.code is Code.JWS_SIGNATURE
        pause = MISS_INTERVAL if is_known or sender == "provider" else UNKNOWN_KEY_INTERVAL
        try:
            return await self._keys.newer_than(keys, asker=f"{sender} {miss.code}", pause=pause)
        except ProviderError:
            if is_known and sender == "anybody":
                return keys
            raise

    async def _fetch(self) -> JsonWebKeySet:
        url = (await self._metadata.get()).jwks_uri
        answer = await self._http.get(url, accept=_ACCEPT)
        answer.require_status(200)
        return JsonWebKeySet.parse(answer.published_document())


def _need_keys(algorithms: frozenset[str]) -> bool:
    return any(ALGORITHMS[name].key_type != "oct" for name in algorithms)


def _undecided(miss: Unverified, why: str) -> Undecided:
    return Undecided(miss.code, f"{miss.explanation}; {why}", **miss.details)
