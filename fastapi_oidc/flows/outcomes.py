"""How a flow ends: a value for the web layer to answer with, and the cookies to change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeAlias

from fastapi_oidc.errors import Code, OIDCError
from fastapi_oidc.session.cookies import CookieChange
from fastapi_oidc.session.model import Identity, OIDCSession

Changes: TypeAlias = tuple[CookieChange, ...]


@dataclass(frozen=True, slots=True)
class Redirection:
    """Send the browser to `location`."""

    location: str = field(repr=False)
    changes: Changes = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class SignedIn(Generic[Identity]):
    """The browser is signed in; `return_to` is a path of this application.

    `replayed`: by an earlier login, whose answer came here again (a reload, the back button).
    `silent`: by a check in a hidden iframe, which renewed the session it had.
    """

    session: OIDCSession[Identity]
    return_to: str
    silent: bool = False
    replayed: bool = False
    changes: Changes = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """A login came back and was refused."""

    error: OIDCError
    silent: bool
    changes: Changes = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """A callback of the application raised `error` during a login; it is for the application."""

    error: Exception
    changes: Changes = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Resumed(Generic[Identity]):
    """The session of this request, or none; `ended` says why one that was there is over."""

    session: OIDCSession[Identity] | None
    changes: Changes = field(default=(), repr=False)
    ended: Code | None = None
