"""Checks at startup: are the routes, the middleware and the provider's endpoints there?

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

from starlette.routing import BaseRoute, Match
from starlette.types import Message, Scope, Send

from fastapi_oidc.errors import ConfigurationError, ProviderError
from fastapi_oidc.resource_server.introspections import Introspections
from fastapi_oidc.web.cors import serves
from fastapi_oidc.web.route_checks import open_paths
from fastapi_oidc.web.routes import Role, RouteTemplates, path_of
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
    for role, path in mounted.items():
        hiding = _hiding(scope["app"], path, role.route_name(instance))
        if role in _NEEDED and hiding is not None:
            _log.error(
                "The route %s is never reached: requests go to %s, which was added before it.\n"
                "Nobody can sign in.\n"
                "Move app.include_router(oidc.router, ...) above that route.",
                path,
                getattr(hiding, "path", hiding),
            )
            return


def _hiding(app: Any, path: str, name: str) -> BaseRoute | None:
    """The route that gets the requests at `path` in place of the route `name`; None if that does.

    Routes are tried in the order in which they were added.
    """
    scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "headers": []}
    first = next((each for each in app.routes if each.matches(scope)[0] is Match.FULL), None)
    return first if first is not None and path_of(first, name) is None else None


def report_open_paths(app: Any) -> None:
    """Log what is open, if the application has a guard for all of its endpoints."""
    if paths := open_paths(app):
        _log.warning(
            "The guard in `dependencies` of the application does not apply to: %s.\n"
            "These answer requests without a session: what is mounted, what `add_route` has added, "
            "and endpoints that were added before the guard.\n"
            "Pass `dependencies` to FastAPI(...). Give a mounted application guards and "
            'OIDCMiddleware of its own (see the page "Protect everything"), or mount on an '
            "application without that guard.",
            ", ".join(paths),
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


async def report_missing_introspection(api: str, introspections: Introspections) -> None:
    """Log that the provider does not introspect the tokens of this API."""
    try:
        await introspections.require_endpoint()
    except ConfigurationError as error:
        _log.error("The API %s: %s", api, error.explanation)
    except ProviderError:
        pass  # Requests with a token tell of the outage.


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
