"""Grants of users, the credentials issued for them, and sessions."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar
from urllib.parse import urlsplit

from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.clock import Clock, TTLCache
from fastapi_oidc.protocol.encoding import encode_base64url
from fastapi_oidc.testing.registration import DevClient, DevUser

REUSE_IS_TOLD: Final = 3600
"""Seconds after which an authorization code is deleted, unless it is valid longer."""

SESSION_IS_KNOWN: Final = 14 * 24 * 3600
"""Seconds for which the end of a session revokes its grants, from their last ID token."""

LIMIT: Final = 50_000
"""Maximum number of stored sessions; beyond it, the oldest are deleted."""

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
    acr: str | None = None
    resources: frozenset[str] = frozenset()
    is_revoked: bool = False
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))

    @property
    def is_of_a_user(self) -> bool:
        """Whether a user signed in; else the client acts for itself (RFC 6749 4.4)."""
        return self.sid != ""


@dataclass(slots=True, eq=False)
class Credential:
    """An authorization code, access token or refresh token.

    `thumbprint` is that of the key it is bound to (RFC 9449 6).
    """

    grant: Grant
    expires_at: int
    is_used: bool = False
    thumbprint: str | None = None

    def is_valid(self, now: int) -> bool:
        """Whether the credential can still be used."""
        return now < self.expires_at and not self.is_used and not self.grant.is_revoked


@dataclass(slots=True, eq=False)
class AuthorizationCode(Credential):
    """A code with what the token request must match."""

    redirect_uri: str = ""
    code_challenge: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """The permissions of an access token: `client` at `audience`, within `scope`, with the key.

    `actor` is who acts for the user (RFC 8693 4.1).
    """

    client: DevClient
    scope: tuple[str, ...]
    audience: str
    thumbprint: str | None = None
    actor: str | None = None

    @property
    def token_type(self) -> str:
        """How the token is sent (RFC 6750, RFC 9449 5)."""
        return "Bearer" if self.thumbprint is None else "DPoP"


@dataclass(slots=True, eq=False)
class AccessToken(Credential):
    """An access token; `claims` are those of its JWT, and of its introspection."""

    access: Access = field(kw_only=True)
    claims: Mapping[str, JsonValue] = field(kw_only=True)


class Credentials:
    """The issued credentials by their values, and the grants of each session.

    Codes are deleted an hour after they were issued, sessions after 50,000 newer ones. So a
    provider that runs for hours does not use more and more memory.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._codes: TTLCache[str, AuthorizationCode] = TTLCache(clock)
        self._access_tokens: TTLCache[str, AccessToken] = TTLCache(clock)
        # A grant's newest refresh token; any other refresh token of the grant was used before.
        self._refresh_tokens: TTLCache[str, tuple[str, Credential]] = TTLCache(clock)
        self._sessions: TTLCache[str, list[Grant]] = TTLCache(clock, max_entries=LIMIT)

    def issue_code(self, code: AuthorizationCode) -> str:
        """A code's value. For an hour, a second use is distinguished from an unknown code."""
        value = secrets.token_urlsafe(24)
        ends = max(code.expires_at, self._clock.now() + REUSE_IS_TOLD)
        self._codes.set(value, code, expires_at=ends)
        return value

    def code(self, value: str) -> AuthorizationCode | None:
        """The code with this value, which may be used or expired."""
        return self._codes.get(value)

    def remember_access_token(self, value: str, token: AccessToken) -> None:
        """Store `token` by its value until it expires."""
        self._access_tokens.set(value, token, expires_at=token.expires_at)

    def access_token(self, value: str) -> AccessToken | None:
        """The access token with this value, unless it has expired."""
        return self._access_tokens.get(value)

    def issue_refresh_token(self, refresh_token: Credential) -> str:
        """The value of a new refresh token, which replaces the grant's last one."""
        grant = refresh_token.grant
        value = f"{grant.id}.{secrets.token_urlsafe(32)}"
        self._refresh_tokens.set(
            grant.id, (value, refresh_token), expires_at=refresh_token.expires_at
        )
        return value

    def refresh_token(self, value: str) -> Credential | None:
        """The refresh token with this value, which may be used; None if the newest has expired."""
        newest, credential = self._refresh_tokens.get(value.partition(".")[0]) or ("", None)
        if credential is None or value == newest:
            return credential
        return replace(credential, is_used=True)

    def remember_session(self, grant: Grant) -> None:
        """Store `grant` for the end of its session."""
        ends = self._clock.now() + SESSION_IS_KNOWN
        of_session = self._sessions.get(grant.sid) or []
        others = [other for other in of_session if other is not grant and not other.is_revoked]
        self._sessions.set(grant.sid, [*others, grant], expires_at=ends)

    def revoke_session(self, sid: str) -> None:
        """End a session's grants, except those for offline use (Back-Channel Logout 1.0, 2.7)."""
        for grant in self._sessions.pop(sid) or []:
            if "offline_access" not in grant.scope:
                grant.is_revoked = True
                self._refresh_tokens.pop(grant.id)


class SingleUse(Generic[Value]):
    """Values that can be used once: pushed requests, open login and logout pages."""

    def __init__(self, clock: Clock, *, lifetime: int, prefix: str = "") -> None:
        self.lifetime = lifetime
        self._clock = clock
        self._prefix = prefix
        self._waiting: TTLCache[str, Value] = TTLCache(clock)

    def put(self, value: Value) -> str:
        """A new unguessable name for `value`, valid for `lifetime` seconds."""
        name = self._prefix + secrets.token_urlsafe(24)
        self._waiting.set(name, value, expires_at=self._clock.now() + self.lifetime)
        return name

    def take(self, name: str) -> Value | None:
        """The value, once; None when it is unknown, used or expired."""
        return self._waiting.pop(name)


@dataclass(slots=True, eq=False)
class OPSession:
    """One browser that is signed in as one user, with its `sid` for each client."""

    user: DevUser
    auth_time: int
    acr: str | None = None
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    browser_state: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    sids: dict[str, str] = field(default_factory=dict)

    def sid_for(self, client: DevClient) -> str:
        """The `sid` in ID tokens and logout tokens for `client`."""
        return self.sids.setdefault(client.client_id, secrets.token_urlsafe(12))


class OPSessions:
    """All sessions, by the browsers' cookies."""

    def __init__(self) -> None:
        # Cookies are shared between ports: providers on one host need different names.
        self._cookie = f"dev_provider_{secrets.token_hex(4)}"
        self.browser_state_cookie = f"{self._cookie}_state"
        self._sessions: OrderedDict[str, OPSession] = OrderedDict()

    def of(self, request: Request) -> OPSession | None:
        """The session of the browser that sent `request`."""
        return self._sessions.get(request.cookies.get(self._cookie, ""))

    def of_user(self, sub: str) -> list[OPSession]:
        """Every session of one user."""
        # A copy, because the server's thread may add a session during the iteration.
        return [session for session in list(self._sessions.values()) if session.user.sub == sub]

    def begin(self, session: OPSession) -> OPSession:
        """Store a new session; beyond the limit, the oldest is deleted."""
        self._sessions[session.id] = session
        if len(self._sessions) > LIMIT:
            self._sessions.popitem(last=False)
        return session

    def end(self, session: OPSession) -> None:
        """Delete a session."""
        self._sessions.pop(session.id, None)

    def write_cookies(self, response: Response, session: OPSession | None) -> None:
        """Set the session's cookies, or delete them for None.

        The script of the check_session_iframe can read the browser state.
        """
        state = session.browser_state if session else secrets.token_urlsafe(12)
        response.set_cookie(self.browser_state_cookie, state, httponly=False, samesite="lax")
        if session is None:
            response.delete_cookie(self._cookie, httponly=True, samesite="lax")
        else:
            response.set_cookie(self._cookie, session.id, httponly=True, samesite="lax")


def session_state(session: OPSession, client: DevClient, redirect_uri: str) -> str:
    """The value whose changes the client watches (Session Management 1.0, 4.2)."""
    salt = secrets.token_hex(8)
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(redirect_uri))
    text = f"{client.client_id} {origin} {session.browser_state} {salt}"
    return f"{encode_base64url(hashlib.sha256(text.encode()).digest())}.{salt}"
