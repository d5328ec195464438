"""The provider's signing keys: one for each algorithm, in a JWK Set, with rotation."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pydantic import JsonValue

from fastapi_oidc.protocol.encoding import encode_base64url
from fastapi_oidc.protocol.jose.keys import ALGORITHMS, JsonWebKeySet, PublicKey
from fastapi_oidc.protocol.jose.sign import PrivateKey, load_private_key

Claims = Mapping[str, JsonValue]

_CURVES: Final[Mapping[str | None, tuple[str, ec.EllipticCurve]]] = {
    "secp256r1": ("P-256", ec.SECP256R1()),
    "secp384r1": ("P-384", ec.SECP384R1()),
    "secp521r1": ("P-521", ec.SECP521R1()),
}
HMAC_ALGORITHMS: Final = tuple(row.name for row in ALGORITHMS.values() if row.key_type == "oct")


def generate_key(algorithm: str) -> PrivateKey:
    """A new private key for one of the asymmetric algorithms."""
    match ALGORITHMS[algorithm].key_type:
        case "EC":
            return ec.generate_private_key(_CURVES[ALGORITHMS[algorithm].curve][1])
        case "OKP":
            return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_jwk(key: PublicKey) -> dict[str, JsonValue]:
    """The members of a JSON Web Key that describe `key` (RFC 7518 6, RFC 8037 2)."""
    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        return {"kty": "RSA", "n": _unsigned(numbers.n), "e": _unsigned(numbers.e)}
    if isinstance(key, ec.EllipticCurvePublicKey):
        point, size = key.public_numbers(), (key.curve.key_size + 7) // 8
        x, y = (encode_base64url(number.to_bytes(size)) for number in (point.x, point.y))
        return {"kty": "EC", "crv": _CURVES[key.curve.name][0], "x": x, "y": y}
    return {"kty": "OKP", "crv": "Ed25519", "x": encode_base64url(key.public_bytes_raw())}


def _unsigned(number: int) -> str:
    return encode_base64url(number.to_bytes((number.bit_length() + 7) // 8))


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key with its algorithm and its published name."""

    algorithm: str
    key: PrivateKey = field(repr=False)
    kid: str = field(default_factory=lambda: secrets.token_urlsafe(8))

    def jwk(self) -> dict[str, JsonValue]:
        """The public half as a JSON Web Key."""
        named: dict[str, JsonValue] = {"kid": self.kid, "use": "sig", "alg": self.algorithm}
        return public_jwk(self.key.public_key()) | named


class SavedKey(NamedTuple):
    """A signing key as text."""

    kid: str
    pem: str


class SigningKeys:
    """A key for each asymmetric algorithm of the provider's clients.

    A key is made when it is first needed, because an RSA key takes a tenth of a second.
    """

    def __init__(self, algorithms: frozenset[str]) -> None:
        self._algorithms = algorithms - set(HMAC_ALGORITHMS)
        self._keys: dict[str, SigningKey] = {}
        self._replaced: list[SigningKey] = []

    def rotate(self) -> None:
        """Replace every key. The JWK Set is then without the old keys."""
        self._replaced += self._keys.values()
        self._keys.clear()

    def of_hints(self) -> JsonWebKeySet:
        """The public keys that verify ID tokens as hints: all that were ever used."""
        keys = (*self._keys.values(), *self._replaced)
        return JsonWebKeySet.parse({"keys": [key.jwk() for key in keys]})

    def saved(self) -> dict[str, SavedKey]:
        """Every key by its algorithm; missing keys are made."""
        return {name: _saved(self._key(name)) for name in self._algorithms}

    def restore(self, saved: Mapping[str, SavedKey]) -> None:
        """Use these keys; raises ConfigurationError (configuration.key_unusable)."""
        for algorithm, (kid, pem) in saved.items():
            self._keys[algorithm] = SigningKey(algorithm, load_private_key(pem), kid)

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
        is_secret = algorithm in HMAC_ALGORITHMS
        material = (secret or "").encode() if is_secret else self._key(algorithm).key
        signature = ALGORITHMS[algorithm].key(material).sign(message.encode())
        return f"{message}.{encode_base64url(signature)}"

    def _key(self, algorithm: str) -> SigningKey:
        if algorithm not in self._keys:
            self._keys[algorithm] = SigningKey(algorithm, generate_key(algorithm))
        return self._keys[algorithm]


def _saved(key: SigningKey) -> SavedKey:
    pem = key.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return SavedKey(key.kid, pem.decode())


def _json(members: Claims) -> str:
    return encode_base64url(json.dumps(members, separators=(",", ":")).encode())
