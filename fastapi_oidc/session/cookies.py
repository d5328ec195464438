"""Authenticated encryption; the names and attributes of cookies, and those of logins under way."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Final, Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import ValidationError

from fastapi_oidc.errors import Code, ConfigurationError, SessionError, misconfigured
from fastapi_oidc.protocol.encoding import decode_base64url, encode_base64url
from fastapi_oidc.session.model import LoginTransaction

MINIMUM_SECRET_BYTES = 32
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


SameSite = Literal["lax", "none"]

PENDING_SECONDS: Final = 600
"""Seconds for which a pending login is valid, with its cookie."""

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_VALUE = re.compile(r"[A-Za-z0-9._~-]*")
_HASH_LENGTH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class CookieChange:
    """A change of one cookie. `max_age` is in seconds; a `value` of None deletes the cookie.

    It is always HttpOnly, with Path=/ and without Domain, as the `__Host-` prefix requires (RFC
    6265bis 4.1.3.2).
    """

    name: str
    value: str | None = field(repr=False)
    max_age: int | None = None
    same_site: SameSite = "lax"
    secure: bool = True

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or not _VALUE.fullmatch(self.value or ""):
            raise ValueError("a cookie name or value has a character that is not allowed")

    def header_value(self) -> str:
        """The text of the `Set-Cookie` header."""
        max_age = 0 if self.value is None else self.max_age
        attributes = [
            f"{self.name}={self.value or ''}",
            *([f"Max-Age={max_age}"] if max_age is not None else []),
            "Path=/",
            "HttpOnly",
            f"SameSite={self.same_site.capitalize()}",
            *(["Secure"] if self.secure else []),
        ]
        return "; ".join(attributes)


@dataclass(frozen=True)
class CookieNames:
    """The cookie names of one OIDC instance. Each instance needs its own prefix.

    `secure` adds `__Host-`, which browsers accept over https only. Raises ConfigurationError
    (configuration.invalid) for an invalid prefix.
    """

    prefix: str
    secure: bool

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.prefix) or len(self.prefix) > 20:
            raise misconfigured(
                "a cookie prefix has 1 to 20 letters, digits, hyphens or underscores"
            )

    @cached_property
    def session(self) -> str:
        """The cookie with the session, or with the reference to it."""
        return self._named("session")

    @cached_property
    def transaction_prefix(self) -> str:
        """The prefix of the cookie names of pending logins."""
        return self._named("login_")

    def transaction(self, state: str) -> str:
        """The cookie of the login with this `state`. The name does not reveal the state."""
        digest = hashlib.sha256(state.encode(errors="surrogatepass")).hexdigest()
        return self.transaction_prefix + digest[:_HASH_LENGTH]

    def is_transaction(self, name: str) -> bool:
        """Whether `name` is the cookie of a pending login of this instance."""
        start, digest = name[:-_HASH_LENGTH], name[-_HASH_LENGTH:]
        return start == self.transaction_prefix and not set(digest) - set("0123456789abcdef")

    def is_ours(self, name: str) -> bool:
        """Whether this instance sets cookies with this name."""
        return name == self.session or self.is_transaction(name)

    def _named(self, role: str) -> str:
        return f"{'__Host-' if self.secure else ''}{self.prefix}_{role}"


MAXIMUM_PENDING: Final = 8

MAXIMUM_COOKIE_BYTES: Final = 7168
"""Bytes of all cookies of this library: servers and proxies accept 8 kB of headers."""

REFERENCE_BYTES: Final = 1024
"""Bytes of the budget for the session cookie when the session is in a store."""


class TransactionCookies:
    """The cookies of pending logins, at most eight in a browser.

    Each is valid for PENDING_SECONDS. With the session cookie, for which `reserved` bytes are, they
    are at most MAXIMUM_COOKIE_BYTES long; the new one counts before older ones. `same_site` is
    "none" only if the provider responds with a cross-site form post.
    """

    def __init__(
        self,
        sealer: Sealer,
        names: CookieNames,
        *,
        same_site: SameSite = "lax",
        reserved: int = REFERENCE_BYTES,
    ) -> None:
        self._sealer, self._names = sealer, names
        self._same_site: SameSite = same_site
        self._room = MAXIMUM_COOKIE_BYTES - reserved

    def begun(
        self, transaction: LoginTransaction, cookies: Mapping[str, str]
    ) -> tuple[CookieChange, ...]:
        """Set the cookie of a new login and delete old ones of `cookies`, if they do not fit."""
        name = self._names.transaction(transaction.state)
        plaintext = transaction.model_dump_json(exclude_defaults=True).encode()
        value = self._sealer.seal(plaintext, name=name)
        change, room = self._change(name, value), self._room - _size(name, value)
        return (*self._evictions(cookies, room, now=transaction.created_at), change)

    def find(self, state: str, cookies: Mapping[str, str], *, now: int) -> LoginTransaction | None:
        """The pending login with this `state`; None when it is missing, unreadable or too old."""
        name = self._names.transaction(state)
        pending = self._open(name, cookies.get(name, ""))
        is_valid = pending is not None and now < pending.created_at + PENDING_SECONDS
        return pending if is_valid else None

    def is_unreadable(self, state: str, cookies: Mapping[str, str]) -> bool:
        """Whether the browser has this login's cookie, and no key here opens it."""
        name = self._names.transaction(state)
        return name in cookies and self._open(name, cookies[name]) is None

    def ended(self, state: str, cookies: Mapping[str, str]) -> tuple[CookieChange, ...]:
        """Delete the cookie of the login with this `state`, whatever its outcome.

        An unreadable cookie stays: another version of this library may have written it, and the
        next request may reach a process that can read it.
        """
        if self.is_unreadable(state, cookies):
            return ()
        return (self._change(self._names.transaction(state), None),)

    def _evictions(self, cookies: Mapping[str, str], room: int, *, now: int) -> list[CookieChange]:
        """The cookies to delete so the rest fits: expired and unreadable ones, then the oldest."""
        names = [name for name in cookies if self._names.is_transaction(name)]
        born = {name: self._created_at(name, cookies[name], now) for name in names}
        newest_first = sorted(names, key=lambda name: -born[name])
        alive = [name for name in newest_first if now < born[name] + PENDING_SECONDS]
        sizes = accumulate(_size(name, cookies[name]) for name in alive)
        fitting = [name for name, size in zip(alive, sizes, strict=True) if size <= room]
        remaining = fitting[: MAXIMUM_PENDING - 1]
        return [self._change(name, None) for name in names if name not in remaining]

    def _created_at(self, name: str, value: str, now: int) -> int:
        """When the login began; for an unreadable cookie, one login lifetime ago."""
        pending = self._open(name, value)
        return pending.created_at if pending is not None else now - PENDING_SECONDS + 1

    def _open(self, name: str, value: str) -> LoginTransaction | None:
        try:
            return LoginTransaction.model_validate_json(self._sealer.open(value, name=name))
        except (SessionError, ValidationError):
            return None

    def _change(self, name: str, value: str | None) -> CookieChange:
        return CookieChange(
            name=name,
            value=value,
            max_age=PENDING_SECONDS,
            same_site=self._same_site,
            secure=self._names.secure,
        )


def _size(name: str, value: str) -> int:
    """Its bytes in the Cookie header, with "=" and "; "."""
    return len(name) + len(value) + 3
