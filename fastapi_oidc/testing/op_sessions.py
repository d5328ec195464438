"""The provider's browser sessions, and the state that Session Management 1.0 watches."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.testing.grants import LIMIT
from fastapi_oidc.testing.registration import DevClient, DevUser
from fastapi_oidc.testing.signatures import base64url


@dataclass(slots=True, eq=False)
class OPSession:
    """One browser signed in as one user, with the `sid` each client knows it by."""

    user: DevUser
    auth_time: int
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    browser_state: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    sids: dict[str, str] = field(default_factory=dict)

    def sid_for(self, client: DevClient) -> str:
        """The session id that ID tokens and logout tokens for `client` carry."""
        return self.sids.setdefault(client.client_id, secrets.token_urlsafe(12))


class OPSessions:
    """Every session, found by the browser's cookie."""

    def __init__(self) -> None:
        # Cookies do not tell ports apart: providers on one host must not share a name.
        self._cookie = f"dev_provider_{secrets.token_hex(4)}"
        self.browser_state_cookie = f"{self._cookie}_state"
        self._sessions: OrderedDict[str, OPSession] = OrderedDict()

    def of(self, request: Request) -> OPSession | None:
        """The session of the browser that sent `request`."""
        return self._sessions.get(request.cookies.get(self._cookie, ""))

    def of_user(self, sub: str) -> list[OPSession]:
        """Every session of one user."""
        # A copy: the server's thread may add a session meanwhile.
        return [session for session in list(self._sessions.values()) if session.user.sub == sub]

    def begin(self, session: OPSession) -> OPSession:
        """Keeps a new session; beyond the limit the oldest is forgotten."""
        self._sessions[session.id] = session
        if len(self._sessions) > LIMIT:
            self._sessions.popitem(last=False)
        return session

    def end(self, session: OPSession) -> None:
        """Forgets a session."""
        self._sessions.pop(session.id, None)

    def write_cookies(self, response: Response, session: OPSession | None) -> None:
        """Tells the browser its session, or that it has none any more.

        The browser state is readable by the script of the check_session_iframe.
        """
        state = session.browser_state if session else secrets.token_urlsafe(12)
        response.set_cookie(self.browser_state_cookie, state, httponly=False, samesite="lax")
        if session is None:
            response.delete_cookie(self._cookie, httponly=True, samesite="lax")
        else:
            response.set_cookie(self._cookie, session.id, httponly=True, samesite="lax")


def session_state(session: OPSession, client: DevClient, redirect_uri: str) -> str:
    """What the client watches for a change (Session Management 1.0, 4.2)."""
    salt = secrets.token_hex(8)
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(redirect_uri))
    text = f"{client.client_id} {origin} {session.browser_state} {salt}"
    return f"{base64url(hashlib.sha256(text.encode()).digest())}.{salt}"
