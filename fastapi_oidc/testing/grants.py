"""What users granted, and every credential that descends from such a grant."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from fastapi_oidc.clock import Clock
from fastapi_oidc.testing.registration import DevClient, DevUser

Value = TypeVar("Value")


@dataclass(slots=True, eq=False)
class Grant:
    """One sign-in of one user at one client; revoking it ends all its tokens."""

    client: DevClient
    user: DevUser
    scope: tuple[str, ...]
    nonce: str | None
    auth_time: int
    sid: str
    is_revoked: bool = False


@dataclass(slots=True, eq=False)
class Credential:
    """An authorization code, access token or refresh token."""

    grant: Grant
    expires_at: int
    is_used: bool = False

    def is_valid(self, now: int) -> bool:
        """Whether the credential can still be used."""
        return now < self.expires_at and not self.is_used and not self.grant.is_revoked


@dataclass(slots=True, eq=False)
class AuthorizationCode(Credential):
    """A code with what the token request must match."""

    redirect_uri: str = ""
    code_challenge: str = ""


@dataclass(slots=True)
class Credentials:
    """Every credential issued, by its value; ID tokens too, because they return as hints."""

    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    access_tokens: dict[str, Credential] = field(default_factory=dict)
    refresh_tokens: dict[str, Credential] = field(default_factory=dict)
    id_tokens: dict[str, Grant] = field(default_factory=dict)

    def remember_id_token(self, id_token: str, grant: Grant) -> None:
        """Keeps a fingerprint of `id_token`."""
        self.id_tokens[_fingerprint(id_token)] = grant

    def grant_of_id_token(self, id_token: str) -> Grant | None:
        """The grant `id_token` was issued for, expired or not; None when it is not ours."""
        return self.id_tokens.get(_fingerprint(id_token))

    def revoke_session(self, sid: str) -> None:
        """Ends a session's grants, save those for offline use (Back-Channel Logout 1.0, 2.7)."""
        for grant in list(self.id_tokens.values()):
            if grant.sid == sid and "offline_access" not in grant.scope:
                grant.is_revoked = True


class SingleUse(Generic[Value]):
    """Values that wait for one visit: pushed requests, open login and logout pages."""

    def __init__(self, clock: Clock, *, lifetime: int, prefix: str = "") -> None:
        self.lifetime = lifetime
        self._clock = clock
        self._prefix = prefix
        self._waiting: dict[str, tuple[int, Value]] = {}

    def put(self, value: Value) -> str:
        """A new unguessable name for `value`, good for `lifetime` seconds."""
        name = self._prefix + secrets.token_urlsafe(24)
        self._waiting[name] = (self._clock.now() + self.lifetime, value)
        return name

    def take(self, name: str) -> Value | None:
        """The value, once; None when unknown, taken before or too old."""
        expires_at, value = self._waiting.pop(name, (0, None))
        return value if self._clock.now() < expires_at else None


def _fingerprint(id_token: str) -> str:
    return hashlib.sha256(id_token.encode()).hexdigest()
