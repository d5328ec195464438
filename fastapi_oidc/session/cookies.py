"""Cookie names, attributes and `Set-Cookie` headers, which only the web layer sends."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from fastapi_oidc.errors import Code, ConfigurationError

SameSite = Literal["lax", "none"]

PENDING_SECONDS: Final = 600
"""Seconds for which a pending login or logout, and its cookie, is valid."""

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
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID,
                "a cookie prefix has 1 to 20 letters, digits, hyphens or underscores",
            )

    @cached_property
    def session(self) -> str:
        """The cookie with the session, or with the reference to it."""
        return self._named("session")

    @cached_property
    def logout(self) -> str:
        """The cookie with the `state` of a logout at the provider."""
        return self._named("logout")

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
        return name == self.session or name == self.logout or self.is_transaction(name)

    def _named(self, role: str) -> str:
        return f"{'__Host-' if self.secure else ''}{self.prefix}_{role}"
