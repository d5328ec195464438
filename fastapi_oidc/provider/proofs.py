"""DPoP proofs for the requests to the provider, with the last nonce of each endpoint (RFC 9449)."""

from __future__ import annotations

from typing import Final

from fastapi_oidc.clock import Clock
from fastapi_oidc.protocol.dpop import DPoPKey

MAX_NONCE_LENGTH: Final = 1000
"""Maximum length, in characters, of a nonce that is sent back."""


class Proofs:
    """Signs proofs with a session's key, and stores nonces in this process only.

    Another process gets a nonce with the refusal of its first request (8, 9).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._nonces: dict[str, str] = {}

    def headers(
        self, key: DPoPKey | None, method: str, endpoint: str, *, access_token: str | None = None
    ) -> dict[str, str]:
        """The `DPoP` header of one request; none without a key."""
        if key is None:
            return {}
        now, nonce = self._clock.now(), self.nonce(endpoint)
        return {"DPoP": key.proof(method, endpoint, now, access_token=access_token, nonce=nonce)}

    def nonce(self, endpoint: str) -> str | None:
        """The nonce for the next proof to `endpoint`."""
        return self._nonces.get(endpoint)

    def learn(self, endpoint: str, nonce: str) -> None:
        """Use `nonce`, from a response header, for the next request to `endpoint` (8.2)."""
        if 0 < len(nonce) <= MAX_NONCE_LENGTH:
            self._nonces[endpoint] = nonce
