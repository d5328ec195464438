"""Signatures of the OpenID Provider (OP), checked with keys that follow its rotations."""

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
from fastapi_oidc.provider.document import STALE_PATIENCE, Document
from fastapi_oidc.provider.http import HTTPClient

Sender: TypeAlias = Literal["provider", "anybody"]
"""Where a token came from: an answer of the provider, or a request to a public route."""

_ACCEPT: Final = "application/jwk-set+json, application/json"


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A JWT with a good signature of the OP; no claim has been checked yet."""

    header_typ: str | None
    algorithm: str
    claims: Claims = field(repr=False)


class Undecided(ProviderError):
    """The keys at hand do not verify a token, and newer ones that may do so cannot be had yet.

    The code is jws.key_missing or jws.signature. Trying the same token again later may help.
    `is_by_new_keys`: the keys were read just then.
    """

    is_by_new_keys = False


class TokenVerifier:
    """Verifies with the OP's published keys, or with the client secret where HS* is pinned."""

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
        """Keys are at hand afterwards; raises ProviderError when there have never been any."""
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
        """The claims under a good signature by one of the pinned `algorithms`.

        Without any it is those of ID tokens; `setting` is where they are pinned. A key the OP has
        published since is found by reading its keys again (OpenID Connect Core 10.1.1), one that it
        replaced under the same name too. Raises ProtocolViolation (`jws` codes), Undecided, or the
        ProviderError of keys that cannot be had.
        """
        secret = self._registration.client_secret
        jws, pinned = CompactJWS.parse(token), algorithms or self._registration.algorithms

        def verified(keys: JsonWebKeySet) -> VerifiedToken:
            claims = verified_claims(
                jws, keys, algorithms=pinned, client_secret=secret, setting=setting
            )
            return VerifiedToken(jws.typ, jws.algorithm, claims)

        if not _need_keys(pinned):
            return verified(JsonWebKeySet(()))
        return await self._verified(verified, sender)

    async def _verified(
        self, verified: Callable[[JsonWebKeySet], VerifiedToken], sender: Sender
    ) -> VerifiedToken:
        """By the keys at hand, else by newer ones."""
        keys = await self._keys.get()
        try:
            return verified(keys)
        except Unverified as miss:
            newer = await self._keys.newer_than(keys, asker=sender)
            if newer is keys:
                raise _undecided(miss, "too early to read the provider's keys again") from None
        try:
            return verified(newer)
        except Unverified as miss:
            # A wrong signature is final; a key may be used before all servers of the OP publish it.
            if miss.code is Code.JWS_SIGNATURE:
                raise
            undecided = _undecided(miss, "the provider's keys were read again")
            undecided.is_by_new_keys = True
            raise undecided from None

    async def _fetch(self) -> JsonWebKeySet:
        url = (await self._metadata.get()).jwks_uri
        answer = await self._http.get(url, accept=_ACCEPT)
        answer.require_status(200)
        return JsonWebKeySet.parse(answer.published_document())


def _need_keys(algorithms: frozenset[str]) -> bool:
    return any(ALGORITHMS[name].key_type != "oct" for name in algorithms)


def _undecided(miss: Unverified, why: str) -> Undecided:
    return Undecided(miss.code, f"{miss.explanation}; {why}", **miss.details)
