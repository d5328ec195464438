"""The provider's keys, and signatures made directly with `cryptography`.

This is the provider's own code on purpose: a mistake in the Relying Party's cannot cancel out here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from pydantic import JsonValue

PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

_CURVES: Final[Mapping[str, ec.EllipticCurve]] = {
    "ES256": ec.SECP256R1(),
    "ES384": ec.SECP384R1(),
    "ES512": ec.SECP521R1(),
}
_CURVE_NAMES: Final = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
_EDWARDS: Final = ("EdDSA", "Ed25519")
_HASHES: Final[Mapping[str, hashes.HashAlgorithm]] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}

HMAC_ALGORITHMS: Final = ("HS256", "HS384", "HS512")
ALGORITHMS: Final = (
    *(family + bits for family in ("RS", "PS", "ES", "HS") for bits in _HASHES),
    *_EDWARDS,
)
"""Every `alg` this provider can sign with (RFC 7518 3.1, RFC 8037, RFC 9864)."""


def base64url(octets: bytes) -> str:
    """Base64url without padding (RFC 7515 2)."""
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def generate_key(algorithm: str) -> PrivateKey:
    """A new private key for one of the asymmetric `ALGORITHMS`."""
    if algorithm in _CURVES:
        return ec.generate_private_key(_CURVES[algorithm])
    if algorithm in _EDWARDS:
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def suits(algorithm: str, key: PublicKey) -> bool:
    """Whether `key` is of the kind and curve that `algorithm` prescribes."""
    if isinstance(key, rsa.RSAPublicKey):
        return algorithm in ALGORITHMS and algorithm[:2] in ("RS", "PS")
    if isinstance(key, ec.EllipticCurvePublicKey):
        return algorithm in _CURVES and _CURVES[algorithm].name == key.curve.name
    return algorithm in _EDWARDS


def sign(algorithm: str, key: PrivateKey, message: bytes) -> bytes:
    """The signature over `message` in the form that JWS uses."""
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(message, _rsa_padding(algorithm), _hash(algorithm))
    if isinstance(key, ec.EllipticCurvePrivateKey):
        numbers = utils.decode_dss_signature(key.sign(message, ec.ECDSA(_hash(algorithm))))
        return b"".join(number.to_bytes(_octets(key.curve)) for number in numbers)
    return key.sign(message)


def sign_with_secret(algorithm: str, secret: str, message: bytes) -> bytes:
    """The HMAC over `message`, keyed by the UTF-8 octets of `secret` (RFC 7518 3.2)."""
    return hmac.digest(secret.encode(), message, _hash(algorithm).name)


def is_signed_by(key: PublicKey, algorithm: str, signature: bytes, message: bytes) -> bool:
    """Whether `signature` over `message` was made with the private half of `key`."""
    try:
        _verify(key, algorithm, signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _verify(key: PublicKey, algorithm: str, signature: bytes, message: bytes) -> None:
    if isinstance(key, rsa.RSAPublicKey):
        key.verify(signature, message, _rsa_padding(algorithm), _hash(algorithm))
    elif isinstance(key, ec.EllipticCurvePublicKey):
        if len(signature) != 2 * _octets(key.curve):
            raise InvalidSignature
        halves = signature[: len(signature) // 2], signature[len(signature) // 2 :]
        numbers = (int.from_bytes(half) for half in halves)
        key.verify(utils.encode_dss_signature(*numbers), message, ec.ECDSA(_hash(algorithm)))
    else:
        key.verify(signature, message)


def public_jwk(key: PublicKey) -> dict[str, JsonValue]:
    """The members of a JSON Web Key that describe `key` (RFC 7518 6, RFC 8037 2)."""
    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        return {"kty": "RSA", "n": _unsigned(numbers.n), "e": _unsigned(numbers.e)}
    if isinstance(key, ec.EllipticCurvePublicKey):
        point, size = key.public_numbers(), _octets(key.curve)
        x, y = (base64url(number.to_bytes(size)) for number in (point.x, point.y))
        return {"kty": "EC", "crv": _CURVE_NAMES[key.curve.name], "x": x, "y": y}
    return {"kty": "OKP", "crv": "Ed25519", "x": base64url(key.public_bytes_raw())}


def half_hash(algorithm: str, text: str) -> str:
    """The left half of the hash of `text`: the value of `at_hash` (Core 3.1.3.6)."""
    name = "sha512" if algorithm in _EDWARDS else _hash(algorithm).name
    digest = hashlib.new(name, text.encode()).digest()
    return base64url(digest[: len(digest) // 2])


def _hash(algorithm: str) -> hashes.HashAlgorithm:
    return _HASHES[algorithm[2:]]


def _rsa_padding(algorithm: str) -> padding.AsymmetricPadding:
    if algorithm.startswith("RS"):
        return padding.PKCS1v15()
    return padding.PSS(padding.MGF1(_hash(algorithm)), _hash(algorithm).digest_size)


def _octets(curve: ec.EllipticCurve) -> int:
    return (curve.key_size + 7) // 8


def _unsigned(number: int) -> str:
    return base64url(number.to_bytes((number.bit_length() + 7) // 8))


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
