"""Authenticated encryption of cookies, rows and records."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.protocol.encoding import decode_base64url, encode_base64url

MINIMUM_SECRET_BYTES = 32
MAXIMUM_SEALED_LENGTH = 65_536
_VERSION = b"1"
_BOUND_TO = _VERSION + b":"
_KEY_BYTES = 32
_DIFFERENT_BYTES = 9
"""Fewer are a repeated word: 32 random bytes as hexadecimal digits have more."""
_NONCE_BYTES = 12
_TAG_BYTES = 16


class KeyRing:
    """Keys derived from secrets, the newest first. The newest key seals, all keys open.

    Raises ConfigurationError (configuration.secret_too_short) for a secret of fewer than 32 bytes.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        if isinstance(secrets, str) or not secrets:
            raise ConfigurationError(
                Code.CONFIGURATION_SECRET_TOO_SHORT, "cookie_secret needs at least one secret"
            )
        self._secrets = tuple(_long_enough(secret) for secret in secrets)

    def keys(self, purpose: str) -> tuple[bytes, ...]:
        """A 32-byte key for each secret and one purpose (HKDF-SHA256, RFC 5869); newest first."""
        return tuple(_derived(secret, purpose) for secret in self._secrets)

    def sealer(self, purpose: str) -> Sealer:
        """A sealer for one purpose. It derives keys, so create it once."""
        return Sealer(self.keys(purpose))


class Sealer:
    """AES-256-GCM with a random 96-bit nonce. Each text is bound to the name it was sealed under.

    A key may seal 2**32 texts before random nonces become a risk (NIST SP 800-38D 8.3).
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._ciphers = tuple(AESGCM(key) for key in keys)

    def seal(self, plaintext: bytes, *, name: str) -> str:
        """The sealed text in base64url without padding, as cookies can hold it."""
        return encode_base64url(self.encrypt(plaintext, name=name))

    def open(self, sealed: str, *, name: str) -> bytes:
        """The plaintext; raises SessionError (session.seal_broken) for another key or name."""
        if len(sealed) > MAXIMUM_SEALED_LENGTH:
            raise SessionError(Code.SESSION_SEAL_BROKEN, "longer than any cookie")
        try:
            raw = decode_base64url(sealed)
        except ValueError:
            raise SessionError(Code.SESSION_SEAL_BROKEN, "not base64url") from None
        return self.decrypt(raw, name=name)

    def encrypt(self, plaintext: bytes, *, name: str) -> bytes:
        """The sealed bytes, for rows and records."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, plaintext, _BOUND_TO + name.encode())

    def decrypt(self, raw: bytes, *, name: str) -> bytes:
        """The plaintext of bytes from `encrypt`; raises SessionError (session.seal_broken)."""
        nonce, encrypted = raw[:_NONCE_BYTES], raw[_NONCE_BYTES:]
        associated = _BOUND_TO + name.encode()
        for cipher in self._ciphers:
            try:
                return cipher.decrypt(nonce, encrypted, associated)
            except (InvalidTag, ValueError):
                continue
        raise SessionError(Code.SESSION_SEAL_BROKEN, "no key opens this")


def sealed_length(plaintext_length: int) -> int:
    """The number of characters that `seal` returns for a plaintext of that many bytes."""
    return -(-(plaintext_length + _NONCE_BYTES + _TAG_BYTES) * 4 // 3)


def _long_enough(secret: str) -> bytes:
    encoded = secret.encode()
    if len(encoded) < MINIMUM_SECRET_BYTES or len(set(encoded)) < _DIFFERENT_BYTES:
        raise ConfigurationError(
            Code.CONFIGURATION_SECRET_TOO_SHORT,
            f"a cookie secret needs at least {MINIMUM_SECRET_BYTES} random bytes, and no word that "
            "is repeated: openssl rand -base64 32",
        )
    return encoded


def _derived(secret: bytes, purpose: str) -> bytes:
    label = b"fastapi_oidc " + _VERSION + b" " + purpose.encode()
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=label).derive(secret)
