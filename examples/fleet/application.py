"""The application of each worker: the console, and a page with the state of the fleet."""

from __future__ import annotations

import os

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from examples.console.app import create_app
from examples.console.demo import watched
from examples.console.settings import ConsoleSettings
from examples.fleet import status
from fastapi_oidc import OIDCSettings

WORKER_HEADER = "X-Worker"


def application() -> FastAPI:
    """Creates it from the environment, as a deployment would. Raises ConfigurationError."""
    worker, console = os.environ["FLEET_WORKER"], ConsoleSettings.from_environment(os.environ)
    sessions = console.sessions(timeout=float(os.environ["FLEET_REDIS_TIMEOUT"]))
    monitors = watched(console)
    app = create_app(OIDCSettings(), monitors, sessions, open_to_all=[status.PREFIX])
    app.include_router(status.routes(worker, console.redis or ""))
    app.mount(f"{status.PREFIX}/static", status.FILES)
    app.add_middleware(NamedWorker, worker=worker)
    return app


class NamedWorker:
    """Adds a header to every response that names its worker."""

    def __init__(self, app: ASGIApp, worker: str) -> None:
        self._app, self._worker = app, worker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add the header to the response."""

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[WORKER_HEADER] = self._worker
            await send(message)

        await self._app(scope, receive, send_with_header)
