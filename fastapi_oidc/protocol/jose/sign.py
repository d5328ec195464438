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
from jose.backends.cryptography_backend import CryptographyECKey, CryptographyRSAKey

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.protocol.jose import base64url
from fastapi_oidc.protocol.jose.algorithms import ALGORITHMS, Algorithm, require_secret
from fastapi_oidc.protocol.jose.keys import MIN_RSA_BITS

PrivateKey: TypeAlias = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey

_ALGORITHM_OF_CURVE: Mapping[str, str] = {
    "secp256r1": "ES256",
    "secp384r1": "ES384",
    "secp521r1": "ES512",
}


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
        row = _row(algorithm or _name(jwk, "alg") or _natural_algorithm(key))
        _require_fit(key, row)
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
        return f"{signing_input}.{base64url.encode(signature)}"


def load_private_key(private_key: str | Mapping[str, object] | PrivateKey) -> PrivateKey:
    """The key object of an unencrypted PEM or a private JWK (RFC 7517, RFC 7518 6).

    Raises ConfigurationError (configuration.key_unusable), which does not quote the key.
    """
    if isinstance(private_key, RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey):
        return private_key
    try:
        key = _from_pem(private_key) if isinstance(private_key, str) else _from_jwk(private_key)
    except Exception:  # python-jose may raise any exception, which may quote the key
        key = None
    if not isinstance(key, RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey):
        raise _unusable("the private key is neither an unencrypted PEM nor a private JWK")
    return key


def _from_pem(text: str) -> object:
    return load_pem_private_key(text.encode(), password=None)


def _from_jwk(jwk: Mapping[str, object]) -> object:
    match jwk.get("kty"), jwk.get("crv"):
        case "RSA", _:
            return CryptographyRSAKey(dict(jwk), "RS256").prepared_key
        case "EC", _:
            return CryptographyECKey(dict(jwk), "ES256").prepared_key
        case "OKP", "Ed25519":
            return Ed25519PrivateKey.from_private_bytes(base64url.decode(str(jwk["d"])))
    return None


def _natural_algorithm(key: PrivateKey) -> str:
    match key:
        case RSAPrivateKey():
            return "RS256"
        case EllipticCurvePrivateKey():
            return _ALGORITHM_OF_CURVE.get(key.curve.name, key.curve.name)
        case Ed25519PrivateKey():
            return "EdDSA"


def _require_fit(key: PrivateKey, algorithm: Algorithm) -> None:
    if not _fits(key, algorithm):
        raise _unusable(f"the private key is of another kind or too short for {algorithm.name}")


def _fits(key: PrivateKey, algorithm: Algorithm) -> bool:
    match key:
        case RSAPrivateKey():
            return algorithm.key_type == "RSA" and key.key_size >= MIN_RSA_BITS
        case EllipticCurvePrivateKey():
            return _ALGORITHM_OF_CURVE.get(key.curve.name) == algorithm.name
        case Ed25519PrivateKey():
            return algorithm.key_type == "OKP"


def _row(name: str) -> Algorithm:
    row = ALGORITHMS.get(name)
    if row is None:
        raise _unusable("unknown signing algorithm")
    return row


def _name(jwk: Mapping[str, object], name: str) -> str | None:
    value = jwk.get(name)
    return value if isinstance(value, str) else None


def _encoded(members: Mapping[str, object]) -> str:
    return base64url.encode(json.dumps(members, separators=(",", ":")).encode())


def _unusable(explanation: str) -> ConfigurationError:
    return ConfigurationError(Code.CONFIGURATION_KEY_UNUSABLE, explanation)
