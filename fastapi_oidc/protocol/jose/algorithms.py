"""The table of signature algorithms (RFC 7518 3, RFC 8037, RFC 9864)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from jose.backends.base import Key
from jose.backends.cryptography_backend import (
    CryptographyECKey,
    CryptographyHMACKey,
    CryptographyRSAKey,
)
from jose.exceptions import JWKError

from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.protocol.jose import base64url


def _pss(hashing: hashes.HashAlgorithm) -> tuple[object, ...]:
    """The parameters of RSASSA-PSS, with a salt as long as the hash (RFC 7518 3.5)."""
    return PSS(mgf=MGF1(hashing), salt_length=hashing.digest_size), hashing


_PARAMETERS: Final[Mapping[str, tuple[object, ...]]] = {
    "PS256": _pss(hashes.SHA256()),
    "PS384": _pss(hashes.SHA384()),
    "PS512": _pss(hashes.SHA512()),
}


class OwnKey(Key):
    """A key of cryptography for RSASSA-PSS and Ed25519, which python-jose lacks.

    Only the table below uses it. It is not registered in python-jose, so its other users in the
    process are not affected.
    """

    def __init__(self, key: Any, algorithm: str) -> None:
        self._key, self._parameters = key, _PARAMETERS.get(algorithm, ())

    def sign(self, msg: bytes) -> bytes:
        """The signature by a private key."""
        signature: bytes = self._key.sign(msg, *self._parameters)
        return signature

    def verify(self, msg: bytes, sig: bytes) -> bool:
        """Whether `sig` is a signature by this public key."""
        try:
            self._key.verify(sig, msg, *self._parameters)
        except InvalidSignature:
            return False
        return True


def key_of(jwk: Mapping[str, object]) -> object:
    """The public or private key object in a JWK (RFC 7518 6, RFC 8037 2), None for another kind.

    Raises any exception for a defect; its text may quote the key.
    """
    members = {name: value for name, value in jwk.items() if value is not None}
    match members.get("kty"), members.get("crv"):
        case "RSA", _:
            return CryptographyRSAKey(members, "RS256").prepared_key
        case "EC", _:
            return CryptographyECKey(members, "ES256").prepared_key
        case "OKP", "Ed25519" if "d" in members:
            return Ed25519PrivateKey.from_private_bytes(base64url.decode(str(members["d"])))
        case "OKP", "Ed25519":
            return Ed25519PublicKey.from_public_bytes(base64url.decode(str(members["x"])))
    return None


MIN_RSA_BITS: Final = 2048
"""RFC 7518 3.3."""

_NAME: Final = re.compile(r"[A-Za-z0-9+-]{1,12}")
_MAX_SHOWN: Final = 5

KeyType: TypeAlias = Literal["RSA", "EC", "OKP", "oct"]
HashName: TypeAlias = Literal["sha256", "sha384", "sha512"]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A row of the table. `min_secret_bytes` is the minimum secret length of Core 16.19.

    `curve` has the name that cryptography uses.
    """

    name: str
    key_type: KeyType
    hash_name: HashName
    key_class: type[Key]
    curve: str | None = None
    min_secret_bytes: int = 0

    def fits(self, key: object) -> bool:
        """Whether a public or private key is of the right type, curve and size."""
        match key:
            case RSAPublicKey() | RSAPrivateKey():
                return self.key_type == "RSA" and key.key_size >= MIN_RSA_BITS
            case EllipticCurvePublicKey() | EllipticCurvePrivateKey():
                return self.curve == key.curve.name
            case Ed25519PublicKey() | Ed25519PrivateKey():
                return self.key_type == "OKP"
        return False

    def key(self, material: object) -> Key:
        """`material` (a secret, or a key object of cryptography) as a key to sign or verify."""
        return self.key_class(material, self.name)


_ROWS = (
    Algorithm("RS256", "RSA", "sha256", CryptographyRSAKey),
    Algorithm("RS384", "RSA", "sha384", CryptographyRSAKey),
    Algorithm("RS512", "RSA", "sha512", CryptographyRSAKey),
    Algorithm("PS256", "RSA", "sha256", OwnKey),
    Algorithm("PS384", "RSA", "sha384", OwnKey),
    Algorithm("PS512", "RSA", "sha512", OwnKey),
    Algorithm("ES256", "EC", "sha256", CryptographyECKey, curve="secp256r1"),
    Algorithm("ES384", "EC", "sha384", CryptographyECKey, curve="secp384r1"),
    Algorithm("ES512", "EC", "sha512", CryptographyECKey, curve="secp521r1"),
    Algorithm("EdDSA", "OKP", "sha512", OwnKey),
    Algorithm("Ed25519", "OKP", "sha512", OwnKey),
    Algorithm("HS256", "oct", "sha256", CryptographyHMACKey, min_secret_bytes=32),
    Algorithm("HS384", "oct", "sha384", CryptographyHMACKey, min_secret_bytes=48),
    Algorithm("HS512", "oct", "sha512", CryptographyHMACKey, min_secret_bytes=64),
)

ALGORITHMS: Mapping[str, Algorithm] = {row.name: row for row in _ROWS}
"""The algorithms by their case-sensitive names, without `none`."""


def require_algorithms(names: object, client_secret: str | None) -> frozenset[str]:
    """The pinned algorithms of a client registration, as a set.

    Raises ConfigurationError for a plain text, an empty or unknown choice, `none`, secret-based
    algorithms beside others (RFC 8725 3.1) or with a secret that is too short (Core 16.19).
    """
    chosen = _known(names)
    symmetric = [row for row in chosen if row.key_type == "oct"]
    if symmetric and len(symmetric) != len(chosen):
        raise misconfigured("HS algorithms cannot be pinned together with others")
    for row in symmetric:
        require_secret(row, client_secret)
    return frozenset(row.name for row in chosen)


def secret_key(algorithm: Algorithm, client_secret: str | None) -> Key | None:
    """The client secret as a key of an HS algorithm, None if it is unsuitable.

    It may be too short (Core 16.19), or look like a public key (RFC 8725 2.1).
    """
    secret = (client_secret or "").encode()
    if len(secret) < algorithm.min_secret_bytes:
        return None
    try:
        return algorithm.key(secret)
    except JWKError:
        return None


def require_secret(algorithm: Algorithm, client_secret: str | None) -> Key:
    """Like `secret_key`; raises ConfigurationError (configuration.secret_too_short) for None."""
    key = secret_key(algorithm, client_secret)
    if key is None:
        raise ConfigurationError(
            Code.CONFIGURATION_SECRET_TOO_SHORT,
            f"{algorithm.name} needs a random client secret of {algorithm.min_secret_bytes} bytes",
        )
    return key


def _known(names: object) -> list[Algorithm]:
    # A string is a collection of characters.
    if isinstance(names, str) or not isinstance(names, Collection) or not names:
        raise misconfigured("signing algorithms must be a list of at least one name")
    unknown = [name for name in map(str, names) if name not in ALGORITHMS]
    if unknown:
        # A value that is not a name may be a misplaced secret.
        shown = [name if _NAME.fullmatch(name) else "(no name)" for name in unknown[:_MAX_SHOWN]]
        raise misconfigured(
            f"unknown signing algorithm {', '.join(shown)}; known are {', '.join(ALGORITHMS)}"
        )
    return [ALGORITHMS[name] for name in map(str, names)]
