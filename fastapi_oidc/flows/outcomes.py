"""How a flow ends: a value for the web layer to answer with, and the cookies to change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, NamedTuple

from fastapi_oidc.errors import OIDCError, SessionError
from fastapi_oidc.flows.standing import Changes, Standing
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession


@dataclass(frozen=True, slots=True)
class Redirection:
    """Send the browser to `location`.

    `provider_unreachable`: the user is signed out here, and the provider could not be asked.
    """

    location: str = field(repr=False)
    changes: Changes = field(default=(), repr=False)
    provider_unreachable: bool = False


@dataclass(frozen=True, slots=True)
class SignedIn(Generic[Identity]):
    """The browser is signed in; `return_to` is a path of this application.

    `replayed`: by an earlier login, whose answer came here again (a reload, the back button).
    `silent`: by a check in a hidden iframe, which renewed the session it had. `kept` is where the
    session lives, None when it was there before.
    """

    session: OIDCSession[Identity]
    return_to: str
    silent: bool = False
    replayed: bool = False
    changes: Changes = field(default=(), repr=False)
    kept: Kept[Identity] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """A login came back and was refused.

    `may_be_retried`: the provider has not seen the code, and the same answer can come again.
    """

    error: OIDCError
    silent: bool
    changes: Changes = field(default=(), repr=False)
    may_be_retried: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """A callback of the application raised `error` during a login; it is for the application."""

    error: Exception
    changes: Changes = field(default=(), repr=False)


class Resumed(NamedTuple, Generic[Identity]):
    """The session of this request, or none.

    `standing` is what its cookie follows from, if that may change; `ended` says why a session that
    was there is over. `unavailable` says that there is one which cannot be used right now.
    """

    session: OIDCSession[Identity] | None
    standing: Standing[Identity] | None = None
    ended: EndReason | None = None
    unavailable: SessionError | None = None
