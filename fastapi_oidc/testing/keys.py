"""The provider's signing keys: one per algorithm, published as a JWK Set, replaced by rotation."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from fastapi_oidc.testing.signatures import (
    HMAC_ALGORITHMS,
    PrivateKey,
    base64url,
    generate_key,
    public_jwk,
    sign,
    sign_with_secret,
)

Claims = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key, the one algorithm it is used with, and the name it is published under."""

    algorithm: str
    key: PrivateKey = field(repr=False)
    kid: str = field(default_factory=lambda: secrets.token_urlsafe(8))

    def jwk(self) -> dict[str, JsonValue]:
        """The public half as a JSON Web Key."""
        named: dict[str, JsonValue] = {"kid": self.kid, "use": "sig", "alg": self.algorithm}
        return public_jwk(self.key.public_key()) | named


class SigningKeys:
    """A key for each asymmetric algorithm the provider's clients are registered for.

    A key is made when it is first needed: an RSA key takes a tenth of a second.
    """

    def __init__(self, algorithms: frozenset[str]) -> None:
        self._algorithms = algorithms - set(HMAC_ALGORITHMS)
        self._keys: dict[str, SigningKey] = {}

    def rotate(self) -> None:
        """Replaces every key; what the old ones signed no longer verifies."""
        self._keys.clear()

    def jwk_set(self) -> dict[str, JsonValue]:
        """The JWK Set document (RFC 7517 5)."""
        return {"keys": [self._key(algorithm).jwk() for algorithm in sorted(self._algorithms)]}

    def header(self, algorithm: str) -> dict[str, JsonValue]:
        """The JOSE header of a token signed with `algorithm`."""
        if algorithm in HMAC_ALGORITHMS:
            return {"alg": algorithm}
        return {"alg": algorithm, "kid": self._key(algorithm).kid}

    def signed(self, header: Claims, claims: Claims, *, algorithm: str, secret: str | None) -> str:
        """The compact JWS of `claims` (RFC 7515 7.1); HMAC algorithms use the client's `secret`."""
        message = f"{_json(header)}.{_json(claims)}"
        if algorithm in HMAC_ALGORITHMS:
            signature = sign_with_secret(algorithm, secret or "", message.encode())
        else:
            signature = sign(algorithm, self._key(algorithm).key, message.encode())
        return f"{message}.{base64url(signature)}"

    def _key(self, algorithm: str) -> SigningKey:
        if algorithm not in self._keys:
            self._keys[algorithm] = SigningKey(algorithm, generate_key(algorithm))
        return self._keys[algorithm]


def _json(members: Claims) -> str:
    return base64url(json.dumps(members, separators=(",", ":")).encode())
