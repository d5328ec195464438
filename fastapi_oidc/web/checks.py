"""Checks of an application before its first request: one walk over its endpoints for all of them.

What is a mistake is refused by `faults`. What may be right is only logged: the routes may be in
another application, and the middleware may be inside of another one.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from types import NoneType
from typing import Any, Final

from starlette.routing import BaseRoute, Match

from fastapi_oidc.settings.rules import odd_lifetime, unencrypted
from fastapi_oidc.web.application import (
    Endpoint,
    cors_inside,
    endpoints_of,
    is_read_by_all,
    plain_endpoints,
    routers_of,
)
from fastapi_oidc.web.faults import members_of, qualified, require_sound_endpoints
from fastapi_oidc.web.guards import FromAPI
from fastapi_oidc.web.misuse import Dependency, annotations_of, name_of, refuses
from fastapi_oidc.web.named_guards import is_open, is_unguarded, returned_response
from fastapi_oidc.web.routes import OwnRoutes, Role, path_of
from fastapi_oidc.web.runtime import Engine, Runtime

_log = logging.getLogger("fastapi_oidc.configuration")

_NEEDED: Final = (Role.LOGIN, Role.CALLBACK)


def report(
    app: Any, routes: OwnRoutes, engine: Engine, fixed: Runtime | None, *, is_mounted: bool
) -> None:
    """Check the application at its startup, and log what may be wrong.

    The routes that a mounted application lacks may be those of the outer application.
    """
    endpoints = endpoints_of(app)
    require_sound_endpoints(app, endpoints, engine)
    if cors_inside(app, engine.name):
        _log.warning(
            "CORSMiddleware was added before OIDCMiddleware, and does not see what the middlewares "
            "after it respond. Refusals of OIDCMiddleware get its headers, others do not.\n"
            "Move app.add_middleware(CORSMiddleware, ...) below the line with OIDCMiddleware."
        )
    if is_read_by_all(app):
        _log.warning(
            "CORSMiddleware has allow_origins=['*'] with allow_credentials=True: pages of every "
            "origin may read what the application answers to a signed-in user.\n"
            "Name the origins of your pages: allow_origins=['https://spa.example.com']."
        )
    if engine.signs_in and not is_mounted and is_unguarded(app, endpoints):
        _log.warning(
            "No endpoint of this application asks who is signed in: OIDCMiddleware loads sessions "
            "and refuses nobody, wherever `exclude` points.\n"
            "Add a guard: dependencies=[Depends(oidc.require_auth)] of a router or an endpoint."
        )
    if paths := _open_paths(app, endpoints):
        _log.warning(
            "The guard in `dependencies` of the application, a router or a route does not apply to "
            "%s.\n"
            "These answer requests without a session: what is mounted, what `add_route` has added, "
            "and endpoints that were added before the guard.\n"
            "Pass `dependencies` to FastAPI(...) or APIRouter(...). Give a mounted application "
            'guards and OIDCMiddleware of its own (see the page "Protect everything"), or mount '
            "on an application without that guard. An MCP server is mounted by "
            "api.mount(app, path, server, *scopes).",
            ", ".join(paths),
        )
    for endpoint in endpoints:
        _report_ignored_responses(endpoint)
        _report_needless_none(endpoint, getattr(app, "dependency_overrides", ()))
    _report_overrides(app, endpoints)
    names = {*engine.needed} if is_mounted else {each.name for each in endpoints}
    for remedy in (engine.needed[name] for name in engine.needed if name not in names):
        _log.error("%s", remedy)
    if engine.signs_in and not is_mounted:
        _report_missing_routes(engine.name, routes.by_role, app, endpoints)
    if fixed is not None:
        _report_memory_of_one(fixed)
        if fault := unencrypted(fixed.origin):
            fixed.party.announcer.advise("allow_insecure_http", fault)
        if fault := odd_lifetime(fixed.party.settings.session_lifetime):
            fixed.party.announcer.advise("session_lifetime", fault)
    if is_mounted:
        return
    plain = plain_endpoints(app)
    open_here = [each for each in plain if getattr(each.route, "routes", None) or is_open(each)]
    for api in engine.apis:
        api.look(endpoints, open_here)


def _open_paths(app: Any, endpoints: Sequence[Endpoint]) -> list[str]:
    """The paths of endpoints and applications to which the guard of their router does not apply.

    A mounted application or a plain route counts only if it has and calls no guard itself.
    """
    guarded: set[int] = set()
    for router in routers_of(app.router):
        given = getattr(router, "dependencies", ())  # Starlette's has none
        if any(refuses(each.dependency) for each in given):
            guarded |= {id(each.original) for each in endpoints_of(router)}
    for endpoint in endpoints:
        own = getattr(endpoint.original, "dependencies", ())
        if any(refuses(each.dependency) for each in own):
            guarded.add(id(endpoint.original))
    found = [each for each in endpoints if id(each.original) in guarded]
    return [each.path for each in found if is_open(each)]


def _report_ignored_responses(endpoint: Endpoint) -> None:
    """Log that a dependency without a name, whose result nobody gets, makes a response or error."""
    for dependant in endpoint.dependants[1:]:
        made = None if dependant.name else returned_response(dependant.call)
        if made is not None:
            _log.warning(
                "%s: FastAPI ignores what the dependency %s returns, and it returns a %s: if "
                "that is to refuse a request, nobody is refused.\n"
                "Raise HTTPException(403), or use a guard such as oidc.require(...).",
                endpoint.path,
                getattr(dependant.call, "__qualname__", dependant.call),
                made.__name__,
            )


def _report_overrides(app: Any, endpoints: Sequence[Endpoint]) -> None:
    """Log which guards are replaced, or that an override replaces nothing."""
    overridden = [each for each in getattr(app, "dependency_overrides", ()) if refuses(each)]
    calls = [call for each in endpoints for call in each.calls]
    # The guards of an API ask for overrides themselves.
    has_api, called = any(isinstance(each, FromAPI) for each in calls), set(map(id, calls))
    effective = [each.name for each in overridden if has_api or id(each) in called]
    if effective:
        _log.warning("Nobody has to sign in: dependency_overrides has %s.", ", ".join(effective))
    elif overridden:
        _log.warning(
            "dependency_overrides has %s, and no endpoint depends on it: nothing is replaced.\n"
            "Override the object in the Depends(...) of the endpoints.",
            ", ".join(each.name for each in overridden),
        )


def _report_needless_none(endpoint: Endpoint, overridden: Collection[object]) -> None:
    """Log that the result of a guard may be None by its annotation: no request gets that far."""
    for dependant in endpoint.dependants:
        kinds = annotations_of(dependant.call) if dependant.dependencies else {}
        for each in dependant.dependencies:
            guard = each.call
            if not isinstance(guard, Dependency) or not guard.refuses or guard in overridden:
                continue
            if NoneType in members_of(kinds.get(each.name or "")):
                _log.warning(
                    "%s: %r of %s may be None by its annotation, and is never: %s refuses "
                    "requests without a session or token.\n"
                    "If strangers may come, write Depends(oidc.optional_user), which returns None "
                    "for them. Otherwise remove None.",
                    endpoint.path,
                    each.name,
                    qualified(dependant.call),
                    name_of(guard),
                )


def _report_missing_routes(
    instance: str, mounted: Mapping[Role, str], app: Any, endpoints: Sequence[Endpoint]
) -> None:
    """Log that an instance lacks routes that a login needs."""
    missing = [str(role) for role in _NEEDED if role not in mounted]
    names = [role.route_name(instance) for role in _NEEDED if role not in mounted]
    if unknown := [each.path for each in endpoints if each.name in names]:
        _log.error(
            "The path %s has a parameter with a name that OIDC does not fill.\n"
            "Call the parameter of the prefix {registration}.",
            unknown[0],
        )
    elif missing:
        _log.error(
            "OIDC instance %r has no route for: %s.\n"
            "Requests without a session cannot be redirected to sign in.\n"
            "Add the line: app.include_router(oidc.router, prefix='/auth')",
            instance,
            ", ".join(missing),
        )
    callback, name = mounted.get(Role.CALLBACK), Role.CALLBACK.route_name(instance)
    here = [each for each in endpoints if each.path == callback]
    own = [each for each in here[1:] if getattr(each.function, "__name__", None) == name]
    if any(each.methods <= here[0].methods for each in own):
        _log.error(
            "The callback_handler() at %s is never reached, because of the router's callback: its "
            "on_success and on_failure are never called.\n"
            "Move app.include_router(oidc.router, ...) below it.",
            callback,
        )
    hidden = [
        (mounted[role], _hiding(app, mounted[role], role.route_name(instance)))
        for role in _NEEDED
        if role in mounted
    ]
    for path, hiding in hidden:
        if hiding is not None:
            _log.error(
                "The route %s is never reached: requests go to %s, which was added before it.\n"
                "Nobody can sign in.\n"
                "Move app.include_router(oidc.router, ...) above that route.",
                path,
                getattr(hiding, "path", hiding) or "/",
            )
            return


def _hiding(app: Any, path: str, name: str) -> BaseRoute | None:
    """The route that gets the requests at `path` in place of the route `name`; None if that does.

    Routes are tried in the order in which they were added.
    """
    scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "headers": []}
    for each in app.routes:
        with suppress(Exception):  # a route of another kind may match what only a request has
            if each.matches(scope)[0] is Match.FULL:
                return each if path_of(each, name) is None else None
    return None


def _report_memory_of_one(runtime: Runtime) -> None:
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
