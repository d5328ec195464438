"""The application: a list of the user's sessions, with a button to end each."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse, RedirectResponse

from fastapi_oidc import (
    OIDC,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
    require_auth,
    require_csrf,
)
from fastapi_oidc.session.sql import SQLStore

Session = OIDCSession[StandardIdentity]


def create_app(settings: OIDCSettings, database: str) -> FastAPI:
    """The application with its sessions in `database`, a URL for SQLAlchemy."""
    oidc = OIDC(settings, session_store=SQLStore(database))
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")

    @app.get("/")
    async def account(session: Annotated[Session, Depends(require_auth)]) -> HTMLResponse:
        """The user's sessions, the newest first."""
        token = oidc.csrf_token(session)
        sessions = await oidc.sessions_of(session.sub)
        rows = "".join(row(each, token, is_this=each.id == session.id) for each in sessions)
        return HTMLResponse(f"<h1>Where you are signed in</h1><ul>{rows}</ul>")

    @app.post("/sessions/{id}/end")
    async def end(id: str, session: Annotated[Session, Depends(require_csrf)]) -> RedirectResponse:
        """End one of the user's sessions."""
        if id not in {each.id for each in await oidc.sessions_of(session.sub)}:
            raise HTTPException(404)
        await oidc.revoke(session_id=id)
        return RedirectResponse("/", status_code=303)

    return app


def row(session: Session, csrf_token: str, *, is_this: bool) -> str:
    """One session of the list; this browser's session has a sign-out button."""
    since = f"since {datetime.fromtimestamp(session.created_at):%d %B, %H:%M}"
    if is_this:
        form = '<form method="post" action="/auth/logout"><button>Sign out</button></form>'
        return f"<li>here, {since} {form}</li>"
    field = f'<input type="hidden" name="csrf_token" value="{csrf_token}">'
    action = f"/sessions/{session.id}/end"
    return (
        f'<li>{since} <form method="post" action="{action}">{field}<button>End</button></form></li>'
    )
