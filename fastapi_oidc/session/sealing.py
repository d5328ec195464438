"""Authenticated encryption of what a browser keeps for us."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.protocol.jose import base64url
from fastapi_oidc.ttl_cache import TTLCache

MINIMUM_SECRET_BYTES = 32
MAXIMUM_SEALED_LENGTH = 65_536
_VERSION = b"1"
_BOUND_TO = _VERSION + b":"
_KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16

CACHED_SECONDS: Final = 60
"""Seconds for which a sealed text is not opened again."""

CACHED_TEXTS: Final = 1000
"""Sealed texts remembered at most; those that expire first are evicted."""

LARGEST_CACHED_TEXT: Final = 12 * 1024
"""Bytes of a text and what it holds; larger texts are opened each time."""

Sealed = TypeVar("Sealed", bound=Hashable)
Opened = TypeVar("Opened")


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

    def also_opening(self, other: Sealer) -> Sealer:
        """A sealer that seals as this one and opens what either has sealed."""
        return Sealer(self._keys + tuple(key for key in other._keys if key not in self._keys))


class DecryptionCache(Generic[Sealed, Opened]):
    """Opens sealed texts with `read`, and remembers for a minute what they held.

    A page makes its requests within seconds, all with one cookie. Opening is a function of text and
    key alone, so a remembered result is right; whether the session goes on is asked at every
    request. `read` returns a value that its callers cannot change, and how many bytes it holds.
    """

    def __init__(self, read: Callable[[Sealed], tuple[Opened, int]], *, clock: Clock) -> None:
        self._read, self._clock = read, clock
        self._opened: TTLCache[Sealed, Opened] = TTLCache(clock, max_entries=CACHED_TEXTS)

    def open(self, sealed: Sealed) -> Opened:
        """What `sealed` holds; raises what `read` raises."""
        opened = self._opened.get(sealed)
        if opened is not None:
            return opened
        opened, size = self._read(sealed)
        if size <= LARGEST_CACHED_TEXT:
            self._opened.set(sealed, opened, expires_at=self._clock.now() + CACHED_SECONDS)
        return opened


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
