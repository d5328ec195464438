"""Checks at startup: are the routes and the middleware there?

The findings are only logged. The application still starts, because the routes may be in another
application, and the middleware may be inside of another one.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import pairwise
from typing import Any

from starlette.types import Message, Scope, Send

from fastapi_oidc.web.cors import serves
from fastapi_oidc.web.routes import Role, RouteTemplates
from fastapi_oidc.web.runtime import Runtime

_log = logging.getLogger("fastapi_oidc.configuration")

_ENDS = ("lifespan.shutdown.complete", "lifespan.shutdown.failed")
_NEEDED = (Role.LOGIN, Role.CALLBACK)


def report_missing_routes(instance: str, scope: Scope) -> None:
    """Log that an instance lacks routes that a login needs."""
    mounted = RouteTemplates(scope["app"], instance).by_role
    missing = [str(role) for role in _NEEDED if role not in mounted]
    if missing:
        _log.error(
            "OIDC instance %r has no route for: %s.\n"
            "Requests without a session cannot be redirected to sign in.\n"
            "Add the line: app.include_router(oidc.router, prefix='/auth')",
            instance,
            ", ".join(missing),
        )


def report_memory_of_one(runtime: Runtime[Any, Any]) -> None:
    """Log each store in memory if the server has several processes."""
    workers = configured_workers(sys.argv, os.environ)
    option = runtime.party.sessions.option_in_memory
    if workers > 1 and option:
        runtime.party.announcer.advise(
            option,
            f'"memory" is that of one process, and this server has {workers}: each of them has '
            "data of its own. Use a store in Redis, or one process",
        )


def configured_workers(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """The configured number of processes, as uvicorn, gunicorn and hypercorn read it."""
    words = " ".join(arguments).replace("=", " ").split()
    asked = [value for flag, value in pairwise(words) if flag in ("--workers", "-w")]
    number = (asked or [environment.get("WEB_CONCURRENCY", "")])[-1]
    return int(number) if number.isdecimal() else 1


def watched(send: Send, look: Callable[[], None], close: Callable[[], Awaitable[None]]) -> Send:
    """A `send` that calls `look` after startup, when all routes are mounted.

    It calls `close` before it sends the end of the shutdown, after which a server stops everything.
    """

    async def observed(message: Message) -> None:
        if message["type"] == "lifespan.startup.complete":
            look()
        elif message["type"] in _ENDS:
            await close()
        await send(message)

    return observed


def reporting_missing_middleware(
    instance: str,
) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """A router's lifespan that logs an error if the middleware is missing."""

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        if not any(serves(each, [instance]) for each in getattr(app, "user_middleware", ())):
            _log.error(
                "The routes of the OIDC instance %r are mounted, its middleware is not.\n"
                "Every request that needs a session will fail.\n"
                "Add the line: app.add_middleware(OIDCMiddleware, oidc=oidc)",
                instance,
            )
        yield

    return lifespan
