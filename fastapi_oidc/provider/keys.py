"""Signatures of the OpenID Provider (OP), checked with keys that follow its rotations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from fastapi_oidc.clock import Clock
from fastapi_oidc.protocol.jose.algorithms import ALGORITHMS
from fastapi_oidc.protocol.jose.compact import CompactJWS
from fastapi_oidc.protocol.jose.keys import JsonWebKeySet
from fastapi_oidc.protocol.jose.verify import KeyMissing, verified_claims
from fastapi_oidc.protocol.json import Claims
from fastapi_oidc.protocol.metadata import ProviderMetadata
from fastapi_oidc.provider.http import HTTPClient
from fastapi_oidc.provider.remembered import Remembered

Sender: TypeAlias = Literal["provider", "anybody"]
"""Who handed a token over: the provider in an answer to us, or whoever can reach a public route."""

_ACCEPT: Final = "application/jwk-set+json, application/json"


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A JWT whose signature is the OP's; no claim has been checked yet."""

    header_typ: str | None
    algorithm: str
    claims: Claims = field(repr=False)


class TokenVerifier:
    """Verifies with the OP's published keys, or with the client secret where HS* is pinned."""

    def __init__(
        self,
        http: HTTPClient,
        metadata: Remembered[ProviderMetadata],
        clock: Clock,
        *,
        algorithms: frozenset[str],
        client_secret: str | None,
    ) -> None:
        self._http = http
        self._metadata = metadata
        self._algorithms = algorithms
        self._client_secret = client_secret
        self._keys = Remembered(self._fetch, clock)

    async def verify(self, token: str, *, sender: Sender = "provider") -> VerifiedToken:
        """The claims under a good signature by one of the pinned algorithms.

        A key the OP has published since is found by reading its keys again (OpenID Connect Core
        10.1.1). Raises ProtocolViolation (`jws` codes), or ProviderError without the OP's keys.
        """
        jws = CompactJWS.parse(token)
        if all(ALGORITHMS[name].key_type == "oct" for name in self._algorithms):
            return self._verified(jws, JsonWebKeySet(()))
        keys = await self._keys.get()
        try:
            return self._verified(jws, keys)
        except KeyMissing:
            return self._verified(jws, await self._keys.newer_than(keys, asker=sender))

    def _verified(self, jws: CompactJWS, keys: JsonWebKeySet) -> VerifiedToken:
        claims = verified_claims(
            jws, keys, algorithms=self._algorithms, client_secret=self._client_secret
        )
        return VerifiedToken(jws.typ, jws.algorithm, claims)

    async def _fetch(self) -> JsonWebKeySet:
        url = (await self._metadata.get()).jwks_uri
        answer = await self._http.get(url, accept=_ACCEPT)
        answer.require_status(200)
        return JsonWebKeySet.parse(answer.document())
