"""The application: its user lets an agent and a worker read the calendar."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from html import escape
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse

from examples.broker.agent import run_tool
from examples.broker.worker import Worker
from examples.calendar.calendar import RESOURCE, SCOPE
from fastapi_oidc import OIDC, DownstreamAPI, OIDCMiddleware, OIDCSession, OIDCSettings
from fastapi_oidc.broker import Broker, Route

NAME = "calendar.internal"
PAGE = """<!doctype html>
<title>Broker</title>
<p>{told}</p>
<form method="post" action="/ask">{token}<button>Let the agent read my calendar</button></form>
<form method="post" action="/watch">{token}<button>Let the worker watch it</button></form>
<form method="post" action="/auth/logout"><button>Sign out</button></form>
"""


def application(settings: OIDCSettings, calendar_url: str) -> FastAPI:
    """The application, with the calendar at `calendar_url`, an address of this machine."""
    calendar = DownstreamAPI(grant="token_exchange", resource=RESOURCE, scope=SCOPE)
    oidc: OIDC = OIDC(settings, session_store="memory", downstream_apis=[calendar])
    route = Route(url=calendar_url, resource=RESOURCE, allow=["GET /events"])
    broker = Broker(oidc, {NAME: route})
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    app.state.worker = worker = Worker(broker)

    def page(session: OIDCSession[Any], told: str) -> HTMLResponse:
        token = f'<input type="hidden" name="csrf_token" value="{oidc.csrf_token(session)}">'
        return HTMLResponse(PAGE.format(told=escape(told), token=token))

    @app.get("/")
    async def home(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> HTMLResponse:
        return page(session, f"The worker has looked {worker.looks} times. {worker.told}")

    @app.post("/ask")
    async def ask(session: OIDCSession[Any] = Depends(oidc.require_csrf)) -> HTMLResponse:
        access = await broker.give(session, to="agent", routes=[NAME], until=timedelta(minutes=5))
        told = await run_tool(broker, access)
        await broker.withdraw(access)
        return page(session, told)

    @app.post("/watch")
    async def watch(session: OIDCSession[Any] = Depends(oidc.require_csrf)) -> HTMLResponse:
        access = await broker.give(session, to="worker", routes=[NAME], until=timedelta(hours=2))
        app.state.watching = asyncio.create_task(worker.run(access))
        return page(session, "The worker watches. Sign out, and it stops.")

    return app
