"""The headers of requests with an access token (RFC 6750 2.1, RFC 9449 7.1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import httpx

from fastapi_oidc.clock import Clock
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.issued_token import IssuedToken
from fastapi_oidc.ttl_cache import TTLCache

MAX_NONCE_LENGTH: Final = 1000
"""Maximum length, in characters, of a nonce that is sent back."""

NONCE_SECONDS: Final = 3600
"""Seconds for which the last nonce of a server is cached."""

MOST_SERVERS: Final = 1000
"""Maximum number of servers whose nonces are cached."""


class Proofs:
    """Makes proofs of possession of a token's key, with the last nonce of the server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._nonces: TTLCache[str, str] = TTLCache(clock, max_entries=MOST_SERVERS)

    def attach(self, request: httpx.Request, token: IssuedToken, server: str) -> None:
        """Add `token`, and a proof for this request alone, to `request` to the origin `server`."""
        request.headers["Authorization"] = f"{token.token_type} {token.value}"
        if token.dpop_key is not None:
            proof = DPoPKey.from_text(token.dpop_key).proof(
                request.method,
                str(request.url),
                self._clock.now(),
                access_token=token.value,
                nonce=self.nonce(server),
            )
            # The class without a proof, also when the request is sent again.
            kind = getattr(request.headers, "plain", type(request.headers))
            request.headers = _with_proof(kind)(request.headers, proof)

    def nonce(self, server: str) -> str | None:
        """The nonce for the next proof to `server`."""
        return self._nonces.get(server)

    def learn(self, server: str, nonce: str) -> None:
        """Use `nonce`, from a response header, in the next proofs to `server` (RFC 9449 8.2)."""
        if len(nonce) <= MAX_NONCE_LENGTH:
            self._nonces.set(server, nonce, expires_at=self._clock.now() + NONCE_SECONDS)


@cache
def _with_proof(kind: type[httpx.Headers]) -> Callable[[httpx.Headers, str], httpx.Headers]:
    """Headers with a proof that is sent and not copied. `kind` is that of httpx or of httpx2.

    A client that follows a redirect copies the headers. Without the proof, a request to another
    origin has nothing of the token, and one within the origin gets a proof of its own.
    """

    class WithProof(kind):  # type: ignore[misc, valid-type]
        plain = kind

        def __init__(self, headers: httpx.Headers, proof: str) -> None:
            super().__init__(headers)
            self._proof = proof

        @property
        def raw(self) -> list[tuple[bytes, bytes]]:
            """The headers as they are sent."""
            return [*super().raw, (b"DPoP", self._proof.encode())]

        def __getitem__(self, key: str) -> str:
            return self._proof if key.lower() == "dpop" else super().__getitem__(key)

        def __contains__(self, key: object) -> bool:
            return str(key).lower() == "dpop" or super().__contains__(key)

    return WithProof
