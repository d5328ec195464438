"""Signs client assertions, DPoP proofs and the tokens of a development OP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from jose.backends.base import Key

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.protocol.encoding import encode_base64url
from fastapi_oidc.protocol.jose.keys import ALGORITHMS, Algorithm, key_of, require_secret

PrivateKey: TypeAlias = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class Signer:
    """A signing key with its algorithm and name."""

    algorithm: Algorithm
    key_id: str | None
    key: Key = field(repr=False)

    @classmethod
    def of_secret(cls, client_secret: str | None, algorithm: str) -> Self:
        """A signer with a client secret; raises ConfigurationError."""
        row = _row(algorithm)
        if row.key_type != "oct":
            raise _unusable(f"{row.name} does not sign with a secret")
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
        jwk = private_key if isinstance(private_key, Mapping) else {}
        key = load_private_key(private_key)
        named = algorithm or _name(jwk, "alg")
        row = next((row for row in ALGORITHMS.values() if row.fits(key)), None)
        row = row if named is None else _row(named)
        if row is None or not row.fits(key):
            raise _unusable("the private key is of another kind or too short for its algorithm")
        return cls(row, key_id or _name(jwk, "kid"), row.key(key))

    def sign(
        self,
        claims: Mapping[str, object],
        *,
        typ: str = "JWT",
        jwk: Mapping[str, object] | None = None,
    ) -> str:
        """The claims as a signed JWT (RFC 7515 3.1), with the public key `jwk` in its header."""
        header: dict[str, object] = {"alg": self.algorithm.name, "typ": typ}
        if jwk is not None:
            header["jwk"] = jwk
        if self.key_id is not None:
            header["kid"] = self.key_id
        signing_input = f"{_encoded(header)}.{_encoded(claims)}"
        signature = self.key.sign(signing_input.encode("ascii"))
        return f"{signing_input}.{encode_base64url(signature)}"


def load_private_key(private_key: str | Mapping[str, object] | PrivateKey) -> PrivateKey:
    """The key object of an unencrypted PEM or a private JWK (RFC 7517, RFC 7518 6).

    Raises ConfigurationError (configuration.key_unusable), which does not quote the key.
    """
    if isinstance(private_key, RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey):
        return private_key
    try:
        if isinstance(private_key, str):
            key: object = load_pem_private_key(private_key.encode(), password=None)
        else:
            key = key_of(private_key)
    except Exception:  # python-jose may raise any exception, which may quote the key
        key = None
    if not isinstance(key, RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey):
        raise _unusable("the private key is neither an unencrypted PEM nor a private JWK")
    return key


def _row(name: str) -> Algorithm:
    row = ALGORITHMS.get(name)
    if row is None:
        raise _unusable("unknown signing algorithm")
    return row


def _name(jwk: Mapping[str, object], name: str) -> str | None:
    value = jwk.get(name)
    return value if isinstance(value, str) else None


def _encoded(members: Mapping[str, object]) -> str:
    return encode_base64url(json.dumps(members, separators=(",", ":")).encode())


def _unusable(explanation: str) -> ConfigurationError:
    return ConfigurationError(Code.CONFIGURATION_KEY_UNUSABLE, explanation)
