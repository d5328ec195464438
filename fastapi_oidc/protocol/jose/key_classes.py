"""The signature algorithms python-jose has not, as key objects in its own form.

They are used by name from the algorithm table and registered nowhere, so that other users of
python-jose in the process see no difference.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from jose.backends.base import Key

_PSS_HASHES: dict[str, hashes.HashAlgorithm] = {
    "PS256": hashes.SHA256(),
    "PS384": hashes.SHA384(),
    "PS512": hashes.SHA512(),
}


class PSSKey(Key):
    """RSASSA-PSS with a salt as long as the hash (RFC 7518 3.5)."""

    def __init__(self, key: RSAPublicKey | RSAPrivateKey, algorithm: str) -> None:
        self._key = key
        self._hash = _PSS_HASHES[algorithm]
        self._padding = PSS(mgf=MGF1(self._hash), salt_length=self._hash.digest_size)

    def sign(self, msg: bytes) -> bytes:
        """The signature; only with a private key."""
        if not isinstance(self._key, RSAPrivateKey):
            raise TypeError("only a private key signs")
        return self._key.sign(msg, self._padding, self._hash)

    def verify(self, msg: bytes, sig: bytes) -> bool:
        """Whether `sig` is of this key."""
        public = self._key.public_key() if isinstance(self._key, RSAPrivateKey) else self._key
        try:
            public.verify(sig, msg, self._padding, self._hash)
        except InvalidSignature:
            return False
        return True


class EdDSAKey(Key):
    """Ed25519 (RFC 8037 3.1), whose name is EdDSA or, fully specified, Ed25519 (RFC 9864)."""

    def __init__(self, key: Ed25519PublicKey | Ed25519PrivateKey, _algorithm: str) -> None:
        self._key = key

    def sign(self, msg: bytes) -> bytes:
        """The signature; only with a private key."""
        if not isinstance(self._key, Ed25519PrivateKey):
            raise TypeError("only a private key signs")
        return self._key.sign(msg)

    def verify(self, msg: bytes, sig: bytes) -> bool:
        """Whether `sig` is of this key."""
        public = self._key.public_key() if isinstance(self._key, Ed25519PrivateKey) else self._key
        try:
            public.verify(sig, msg)
        except InvalidSignature:
            return False
        return True
