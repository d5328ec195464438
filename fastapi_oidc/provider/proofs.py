"""DPoP proofs for requests, with the last nonce of each server (RFC 9449)."""

from __future__ import annotations

from typing import Final

from fastapi_oidc.clock import Clock
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.ttl_cache import TTLCache

MAX_NONCE_LENGTH: Final = 1000
"""Maximum length, in characters, of a nonce that is sent back."""

NONCE_SECONDS: Final = 3600
"""Seconds for which the last nonce of a server is cached."""

MOST_SERVERS: Final = 1000
"""Maximum number of servers whose nonces are cached."""


class Proofs:
    """Signs proofs with the key of a token, and stores nonces in this process only.

    Another process gets a nonce with the refusal of its first request (8, 9). `server` is what has
    nonces of its own: the provider's endpoint, or the origin of an API.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._nonces: TTLCache[str, str] = TTLCache(clock, max_entries=MOST_SERVERS)

    def headers(
        self,
        key: DPoPKey | None,
        method: str,
        url: str,
        *,
        access_token: str = "",
        server: str = "",
    ) -> dict[str, str]:
        """The `DPoP` header of one request; none without a key."""
        if key is None:
            return {}
        now, nonce = self._clock.now(), self.nonce(server or url)
        proof = key.proof(method, url, now, access_token=access_token or None, nonce=nonce)
        return {"DPoP": proof}

    def nonce(self, server: str) -> str | None:
        """The nonce for the next proof to `server`."""
        return self._nonces.get(server)

    def learn(self, server: str, nonce: str) -> None:
        """Use `nonce`, from a response header, in the next proofs to `server` (8.2)."""
        if 0 < len(nonce) <= MAX_NONCE_LENGTH:
            self._nonces.set(server, nonce, expires_at=self._clock.now() + NONCE_SECONDS)
