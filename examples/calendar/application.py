"""The application: it shows its user's calendar, and counts the events later."""

import asyncio
from html import escape
from typing import Annotated, Any

import httpx
from fastapi import BackgroundTasks, Depends, FastAPI
from fastapi.responses import HTMLResponse

from examples.calendar.calendar import RESOURCE, SCOPE
from fastapi_oidc import (
    OIDC,
    DownstreamAPI,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
    require_auth,
)

Session = Annotated[OIDCSession[StandardIdentity], Depends(require_auth)]

PAGE = """<!doctype html>
<title>Calendar</title>
<h1>Events of {name}</h1>
<ul>{events}</ul>
<p>{later}</p>
<form method="post" action="/count">
<input type="hidden" name="csrf_token" value="{token}"><button>Count them later</button></form>
<form method="post" action="/auth/logout"><button>Sign out</button></form>
"""


def application(settings: OIDCSettings, calendar_url: str, **options: Any) -> FastAPI:
    """The application, with the calendar at `calendar_url`; `options` are those of `OIDC`."""
    calendar = DownstreamAPI(grant="token_exchange", resource=RESOURCE, scope=SCOPE)
    oidc = OIDC(settings, session_store="memory", downstream_apis=[calendar], **options)
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    app.state.transport, app.state.seconds, counted = None, 5.0, dict[str, int]()

    async def events_with(auth: httpx.Auth) -> list[str]:
        async with httpx.AsyncClient(auth=auth, transport=app.state.transport) as http:
            response = await http.get(f"{calendar_url}/events")
            events: list[str] = response.raise_for_status().json()
            return events

    async def count(session_id: str, sub: str) -> None:
        """Work without a request: the session may have been refreshed or ended meanwhile."""
        await asyncio.sleep(app.state.seconds)
        grant = await oidc.grant(session_id, resource=RESOURCE)
        counted[sub] = len(await events_with(oidc.auth(grant)))

    @app.get("/")
    async def page(session: Session) -> HTMLResponse:
        events = await events_with(oidc.auth(session, resource=RESOURCE))
        items = "".join(f"<li>{escape(event)}</li>" for event in events)
        later = f"Counted: {counted[session.sub]}" if session.sub in counted else "Not counted yet."
        name = escape(session.identity.name or session.sub)
        token = oidc.csrf_token(session)
        return HTMLResponse(PAGE.format(name=name, events=items, later=later, token=token))

    @app.post("/count", dependencies=[Depends(oidc.require_csrf)])
    async def begin_count(session: Session, tasks: BackgroundTasks) -> HTMLResponse:
        tasks.add_task(count, session.id, session.sub)
        return HTMLResponse('<p>Counting. <a href="/">Back</a></p>')

    return app
