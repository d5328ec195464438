"""Signs client assertions, DPoP proofs and the tokens of a development OP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from jose.backends.base import Key

from fastapi_oidc.errors import Code, misconfigured
from fastapi_oidc.protocol.encoding import encode_base64url
from fastapi_oidc.protocol.jose.keys import ALGORITHMS, Algorithm, key_of, require_secret

PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

_UNUSABLE: Final = Code.CONFIGURATION_KEY_UNUSABLE


@dataclass(frozen=True, slots=True)
class Signer:
    """A signing key with its algorithm and name."""

    algorithm: Algorithm
    key_id: str | None
    key: Key = field(repr=False)

    @classmethod
    def of_secret(cls, client_secret: str | None, algorithm: str) -> Self:
        """A signer with a client secret; raises ConfigurationError."""
        row = ALGORITHMS.get(algorithm)
        if row is None or row.key_type != "oct":
            raise misconfigured("a secret signs with HS256, HS384 or HS512", _UNUSABLE)
        return cls(row, None, require_secret(row, client_secret))

    @classmethod
    def of_private_key(
        cls,
        private_key: str | Mapping[str, object] | PrivateKey,
        *,
        algorithm: str | None = None,
        key_id: str | None = None,
    ) -> Self:
        """A signer with a PEM text, a JWK or a key object of cryptography.

        The defaults are from the JWK, else from the type of key. Raises ConfigurationError
        (configuration.key_unusable), which does not quote the key.
        """
        jwk: Mapping[str, Any] = private_key if isinstance(private_key, Mapping) else {}
        key = load_private_key(private_key)
        named = algorithm or jwk.get("alg")
        rows = (row for row in ALGORITHMS.values() if row.fits(key) and named in (None, row.name))
        if (row := next(rows, None)) is None:
            explanation = "the private key is of another kind or too short for its algorithm"
            raise misconfigured(explanation, _UNUSABLE)
        return cls(row, key_id or jwk.get("kid"), row.key(key))

    def sign(
        self,
        claims: Mapping[str, object],
        *,
        typ: str = "JWT",
        jwk: Mapping[str, object] | None = None,
    ) -> str:
        """The claims as a signed JWT (RFC 7515 3.1), with the public key `jwk` in its header."""
        header = {"alg": self.algorithm.name, "typ": typ, "kid": self.key_id, "jwk": jwk}
        named = {name: value for name, value in header.items() if value is not None}
        signing_input = f"{_encoded(named)}.{_encoded(claims)}"
        signature = self.key.sign(signing_input.encode("ascii"))
        return f"{signing_input}.{encode_base64url(signature)}"


def load_private_key(private_key: str | Mapping[str, object] | PrivateKey) -> PrivateKey:
    """The key object of an unencrypted PEM or a private JWK (RFC 7517, RFC 7518 6).

    Raises ConfigurationError (configuration.key_unusable), which does not quote the key.
    """
    if isinstance(private_key, PrivateKey):
        return private_key
    try:
        if isinstance(private_key, str):
            key: object = load_pem_private_key(private_key.encode(), password=None)
        else:
            key = key_of(private_key)
    except Exception:  # python-jose may raise any exception, which may quote the key
        key = None
    if not isinstance(key, PrivateKey):
        explanation = "the private key is neither an unencrypted PEM nor a private JWK"
        raise misconfigured(explanation, _UNUSABLE)
    return key


def _encoded(members: Mapping[str, object]) -> str:
    return encode_base64url(json.dumps(members, separators=(",", ":")).encode())
