"""The account menu: the user's sessions, and ending one or all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response

from examples.console.events import work_for
from examples.console.identity import User
from examples.console.settings import Right
from fastapi_oidc import (
    OIDC,
    Code,
    LogoutOptions,
    OIDCSession,
    SessionError,
    require_auth,
    require_csrf,
)

SIGNED_OUT_PATH = "/signed-out"


async def signed(session: Annotated[OIDCSession[User], Depends(require_auth)]) -> OIDCSession[User]:
    """The session of a signed-in user, for whom the request works from now on."""
    work_for(session.identity.person)
    return session


Signed = Annotated[OIDCSession[User], Depends(signed)]
Posted = Annotated[str, Form()]


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session of the user; `is_this` marks the current one."""

    id: str
    since: datetime
    last_seen: datetime | None
    is_this: bool


def oidc_of(request: Request) -> OIDC[User]:
    """The library's object of this console."""
    oidc: OIDC[User] = request.app.state.oidc
    return oidc


async def typed_of(request: Request) -> dict[str, str]:
    """The inputs of the form, without its token."""
    form = await request.form()
    return {name: str(value) for name, value in form.items() if name != "csrf_token"}


Typed = Annotated[dict[str, str], Depends(typed_of)]
CHECKED: Final = [Depends(require_csrf)]
"""Refuses forms that no page of the session has made."""


async def sessions_of(request: Request, session: OIDCSession[User]) -> Sequence[SessionRow]:
    """All sessions of the user of `session`: this one first, then the newest."""
    oidc = oidc_of(request)
    dated = oidc.settings.idle_timeout is not None
    rows = [_row(one, session.id, dated=dated) for one in await oidc.sessions_of(session.sub)]
    return sorted(rows, key=lambda row: not row.is_this)


def _row(session: OIDCSession[User], this: str, *, dated: bool) -> SessionRow:
    """`dated`: the library records when a session was last used after its login."""
    seen = (session.last_seen_at or session.created_at) if dated else None
    return SessionRow(
        id=session.id,
        since=datetime.fromtimestamp(session.created_at, UTC),
        last_seen=datetime.fromtimestamp(seen, UTC) if seen else None,
        is_this=session.id == this,
    )


def for_all() -> APIRouter:
    """Routes for signed-in users: others are refused before anything is looked up."""
    return APIRouter(dependencies=[Depends(signed)])


def for_those_who(right: Right) -> APIRouter:
    """Routes for users with a right: others are refused before anything is looked up or read.

    It is the right for the machine that the path names, or else for all machines.
    """

    async def permitted(request: Request, session: Signed) -> None:
        if not session.identity.may(right, request.path_params.get("machine", "")):
            raise SessionError(Code.SESSION_FORBIDDEN, f"the route needs the right to {right}")

    return APIRouter(dependencies=[Depends(permitted)])


router = for_all()
"""The buttons of the menu; every signed-in user may end their own sessions."""


@router.post("/account/end-session", dependencies=CHECKED)
async def end_session(
    request: Request, session: Signed, session_id: Posted = "", return_to: Posted = "/"
) -> Response:
    """End one of the user's sessions."""
    own = {one.id for one in await oidc_of(request).sessions_of(session.sub)}
    if session_id in own:  # else it has ended meanwhile, or belongs to another user
        await oidc_of(request).revoke(session_id=session_id)
    return RedirectResponse(own_path(return_to), 303)


@router.post("/account/sign-out-everywhere", dependencies=CHECKED)
async def sign_out_everywhere(request: Request, session: Signed) -> Response:
    """End all sessions of the user."""
    await oidc_of(request).revoke(sub=session.sub)
    return await oidc_of(request).logout(request, LogoutOptions(return_to=SIGNED_OUT_PATH))


def own_path(text: str) -> str:
    """The path in `text` if it is one of this console; else its first page."""
    parts = urlsplit(text)
    is_own = text.startswith("/") and not parts.netloc and "\\" not in text
    return parts.path if is_own and not parts.path.startswith("//") else "/"
