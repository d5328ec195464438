"""DPoP proofs for the requests to the provider, with the last nonce of each endpoint (RFC 9449)."""

from __future__ import annotations

from typing import Final

from fastapi_oidc.clock import Clock
from fastapi_oidc.protocol.dpop import DPoPKey

MAX_NONCE_LENGTH: Final = 1000
"""Characters of the longest nonce that is sent back."""


class Proofs:
    """Signs with the key of a session; remembers nonces in this process alone.

    Another process learns its nonce by the refusal of its first request (8, 9).
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
        """The nonce that the next proof for `endpoint` has."""
        return self._nonces.get(endpoint)

    def learn(self, endpoint: str, nonce: str) -> None:
        """Use `nonce`, the header of a response, for the next request to `endpoint` (8.2)."""
        if 0 < len(nonce) <= MAX_NONCE_LENGTH:
            self._nonces[endpoint] = nonce
