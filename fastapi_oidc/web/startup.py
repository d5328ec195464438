"""What is looked at when the application starts: that the routes and the middleware are there.

Both are logged and neither keeps the application from starting: the routes may be another
application's, and a middleware may be inside of another one.
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
from fastapi_oidc.web.routes import Role, mounted_paths
from fastapi_oidc.web.runtime import Runtime

_log = logging.getLogger("fastapi_oidc.configuration")

_ENDS = ("lifespan.shutdown.complete", "lifespan.shutdown.failed")
_NEEDED = (Role.LOGIN, Role.CALLBACK)


def report_missing_routes(instance: str, scope: Scope) -> None:
    """Three lines about an instance at which nobody can sign in."""
    paths = mounted_paths(scope["app"], instance)
    missing = [str(role) for role in _NEEDED if role not in paths]
    if missing:
        _log.error(
            "OIDC instance %r has no route for: %s.\n"
            "Nobody who opens a page without a session can be sent to sign in.\n"
            "Add the line: app.include_router(oidc.router, prefix='/auth')",
            instance,
            ", ".join(missing),
        )


def report_memory_of_one(runtime: Runtime[Any, Any]) -> None:
    """One warning about each store in the memory of one of several processes."""
    workers = configured_workers(sys.argv, os.environ)
    for option in runtime.party.backend.in_memory if workers > 1 else ():
        runtime.party.announcer.advise(
            option,
            f'"memory" is that of one process, and this server has {workers}: what one of them '
            "stores the others do not know. Use a store in Redis, or one process",
        )


def configured_workers(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """How many processes the server was asked for, as uvicorn, gunicorn and hypercorn read it."""
    words = " ".join(arguments).replace("=", " ").split()
    asked = [value for flag, value in pairwise(words) if flag in ("--workers", "-w")]
    number = (asked or [environment.get("WEB_CONCURRENCY", "")])[-1]
    return int(number) if number.isdecimal() else 1


def watched(send: Send, look: Callable[[], None], close: Callable[[], Awaitable[None]]) -> Send:
    """A `send` that looks once the application has started, when all routes are mounted.

    It closes before it says that the application has ended: a server stops everything then.
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
    """A router's lifespan: three lines about an application whose middleware is missing."""

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        if not any(serves(each, [instance]) for each in getattr(app, "user_middleware", ())):
            _log.error(
                "The routes of the OIDC instance %r are mounted, its middleware is not.\n"
                "Every request that asks for a session will fail.\n"
                "Add the line: app.add_middleware(OIDCMiddleware, oidc=oidc)",
                instance,
            )
        yield

    return lifespan
