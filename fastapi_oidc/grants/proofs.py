"""The headers of requests with an access token (RFC 6750 2.1, RFC 9449 7.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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

    def headers(self, token: IssuedToken, method: str, url: str, server: str) -> Mapping[str, str]:
        """The headers of one request to `server`, the origin of `url`."""
        headers = {"Authorization": f"{token.token_type} {token.value}"}
        if token.dpop_key is not None:
            headers["DPoP"] = DPoPKey.from_text(token.dpop_key).proof(
                method,
                url,
                self._clock.now(),
                access_token=token.value,
                nonce=self.nonce(server),
            )
        return headers

    def nonce(self, server: str) -> str | None:
        """The nonce for the next proof to `server`."""
        return self._nonces.get(server)

    def learn(self, server: str, nonce: str) -> None:
        """Use `nonce`, from a response header, in the next proofs to `server` (RFC 9449 8.2)."""
        if len(nonce) <= MAX_NONCE_LENGTH:
            self._nonces.set(server, nonce, expires_at=self._clock.now() + NONCE_SECONDS)
