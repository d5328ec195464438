"""Authenticated encryption of what a browser keeps for us."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.protocol.jose import base64url

MINIMUM_SECRET_BYTES = 32
MAXIMUM_SEALED_LENGTH = 65_536
_VERSION = b"1"
_BOUND_TO = _VERSION + b":"
_KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16


class KeyRing:
    """Keys derived from secrets, the newest first: it seals, all of them open.

    Raises ConfigurationError (configuration.secret_too_short) for a secret under 32 bytes.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        if isinstance(secrets, str) or not secrets:
            raise ConfigurationError(
                Code.CONFIGURATION_SECRET_TOO_SHORT, "give a list of at least one cookie secret"
            )
        self._secrets = tuple(_long_enough(secret) for secret in secrets)

    def keys(self, purpose: str) -> tuple[bytes, ...]:
        """A 32-byte key per secret for one purpose (HKDF-SHA256, RFC 5869); newest first."""
        return tuple(_derived(secret, purpose) for secret in self._secrets)

    def sealer(self, purpose: str) -> Sealer:
        """A sealer for one purpose. Derives keys, so make it once and keep it."""
        return Sealer(self.keys(purpose))


class Sealer:
    """AES-256-GCM with a random 96-bit nonce; what was sealed under one name opens only there.

    A key may seal 2**32 texts before random nonces become a risk (NIST SP 800-38D 8.3).
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = tuple(keys)
        self._ciphers = tuple(AESGCM(key) for key in keys)

    def seal(self, plaintext: bytes, *, name: str) -> str:
        """The sealed text: base64url without padding, safe in a cookie."""
        return base64url.encode(self.encrypt(plaintext, name=name))

    def open(self, sealed: str, *, name: str) -> bytes:
        """The plaintext; raises SessionError (session.seal_broken) unless it was sealed here."""
        if len(sealed) > MAXIMUM_SEALED_LENGTH:
            raise SessionError(Code.SESSION_SEAL_BROKEN, "longer than any cookie")
        try:
            raw = base64url.decode(sealed)
        except ValueError:
            raise SessionError(Code.SESSION_SEAL_BROKEN, "not base64url") from None
        return self.decrypt(raw, name=name)

    def encrypt(self, plaintext: bytes, *, name: str) -> bytes:
        """The sealed bytes, for what is no cookie."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, plaintext, _BOUND_TO + name.encode())

    def decrypt(self, raw: bytes, *, name: str) -> bytes:
        """What `encrypt` sealed; raises SessionError (session.seal_broken)."""
        nonce, encrypted = raw[:_NONCE_BYTES], raw[_NONCE_BYTES:]
        associated = _BOUND_TO + name.encode()
        for cipher in self._ciphers:
            try:
                return cipher.decrypt(nonce, encrypted, associated)
            except (InvalidTag, ValueError):
                continue
        raise SessionError(Code.SESSION_SEAL_BROKEN, "no key opens this")

    def and_opening(self, other: Sealer) -> Sealer:
        """A sealer that seals as this one and opens what either has sealed."""
        return Sealer(self._keys + tuple(key for key in other._keys if key not in self._keys))


def sealed_length(plaintext_length: int) -> int:
    """How many characters `seal` makes of that many bytes."""
    return -(-(plaintext_length + _NONCE_BYTES + _TAG_BYTES) * 4 // 3)


def _long_enough(secret: str) -> bytes:
    encoded = secret.encode()
    if len(encoded) < MINIMUM_SECRET_BYTES:
        raise ConfigurationError(
            Code.CONFIGURATION_SECRET_TOO_SHORT,
            f"a cookie secret needs at least {MINIMUM_SECRET_BYTES} random bytes",
        )
    return encoded


def _derived(secret: bytes, purpose: str) -> bytes:
    label = b"fastapi_oidc " + _VERSION + b" " + purpose.encode()
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=label).derive(secret)
