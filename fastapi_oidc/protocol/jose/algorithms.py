"""The table of signature algorithms (RFC 7518 3, RFC 8037, RFC 9864)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
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

_PSS_HASHES: dict[str, hashes.HashAlgorithm] = {
    "PS256": hashes.SHA256(),
    "PS384": hashes.SHA384(),
    "PS512": hashes.SHA512(),
}


# python-jose lacks the next two classes. Only the table below uses them. They are not registered in
# python-jose, so its other users in the process are not affected.


class PSSKey(Key):
    """RSASSA-PSS with a salt as long as the hash (RFC 7518 3.5)."""

    def __init__(self, key: RSAPublicKey | RSAPrivateKey, algorithm: str) -> None:
        self._key = key
        self._hash = _PSS_HASHES[algorithm]
        self._padding = PSS(mgf=MGF1(self._hash), salt_length=self._hash.digest_size)

    def sign(self, msg: bytes) -> bytes:
        """The signature; requires a private key."""
        if not isinstance(self._key, RSAPrivateKey):
            raise TypeError("signing needs a private key")
        return self._key.sign(msg, self._padding, self._hash)

    def verify(self, msg: bytes, sig: bytes) -> bool:
        """Whether `sig` is a signature by this key."""
        public = self._key.public_key() if isinstance(self._key, RSAPrivateKey) else self._key
        try:
            public.verify(sig, msg, self._padding, self._hash)
        except InvalidSignature:
            return False
        return True


class EdDSAKey(Key):
    """Ed25519 (RFC 8037 3.1), with the name EdDSA or, fully specified, Ed25519 (RFC 9864)."""

    def __init__(self, key: Ed25519PublicKey | Ed25519PrivateKey, _algorithm: str) -> None:
        self._key = key

    def sign(self, msg: bytes) -> bytes:
        """The signature; requires a private key."""
        if not isinstance(self._key, Ed25519PrivateKey):
            raise TypeError("signing needs a private key")
        return self._key.sign(msg)

    def verify(self, msg: bytes, sig: bytes) -> bool:
        """Whether `sig` is a signature by this key."""
        public = self._key.public_key() if isinstance(self._key, Ed25519PrivateKey) else self._key
        try:
            public.verify(sig, msg)
        except InvalidSignature:
            return False
        return True


_NAME: Final = re.compile(r"[A-Za-z0-9+-]{1,12}")
_MAX_SHOWN: Final = 5

KeyType: TypeAlias = Literal["RSA", "EC", "OKP", "oct"]
HashName: TypeAlias = Literal["sha256", "sha384", "sha512"]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A row of the table. `min_secret_bytes` is the minimum secret length of Core 16.19."""

    name: str
    key_type: KeyType
    hash_name: HashName
    key_class: type[Key]
    curve: str | None = None
    min_secret_bytes: int = 0

    def key(self, material: object) -> Key:
        """`material` (a secret, or a key object of cryptography) as a key to sign or verify."""
        return self.key_class(material, self.name)


_ROWS = (
    Algorithm("RS256", "RSA", "sha256", CryptographyRSAKey),
    Algorithm("RS384", "RSA", "sha384", CryptographyRSAKey),
    Algorithm("RS512", "RSA", "sha512", CryptographyRSAKey),
    Algorithm("PS256", "RSA", "sha256", PSSKey),
    Algorithm("PS384", "RSA", "sha384", PSSKey),
    Algorithm("PS512", "RSA", "sha512", PSSKey),
    Algorithm("ES256", "EC", "sha256", CryptographyECKey, curve="P-256"),
    Algorithm("ES384", "EC", "sha384", CryptographyECKey, curve="P-384"),
    Algorithm("ES512", "EC", "sha512", CryptographyECKey, curve="P-521"),
    Algorithm("EdDSA", "OKP", "sha512", EdDSAKey, curve="Ed25519"),
    Algorithm("Ed25519", "OKP", "sha512", EdDSAKey, curve="Ed25519"),
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
