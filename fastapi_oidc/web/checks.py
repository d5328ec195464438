"""Checks of an application before its first request: one walk over its endpoints for all of them.

What is a mistake is refused by `faults`. What may be right is only logged: the routes may be in
another application, and the middleware may be inside of another one.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import unwrap
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Match

from fastapi_oidc.flows.relying_party import RelyingParty, standard_identity
from fastapi_oidc.settings.rules import guessable, unencrypted
from fastapi_oidc.web.access_tokens import Protected
from fastapi_oidc.web.application import Endpoint, endpoints_of, is_read_by_all
from fastapi_oidc.web.faults import require_sound_endpoints
from fastapi_oidc.web.misuse import refuses
from fastapi_oidc.web.routes import OwnRoutes, Role, path_of
from fastapi_oidc.web.runtime import Engine, Runtime

_log = logging.getLogger("fastapi_oidc.configuration")

_NEEDED: Final = (Role.LOGIN, Role.CALLBACK)

_WISHES: Final = {
    "acr_values": "Depends(oidc.require_acr(...)) does",
    "hd": "compare the claim `hd`, in resolve_identity or a guard",
}
"""Parameters of logins that are taken for requirements, and what requires it."""


def report(
    app: Any, routes: OwnRoutes, engine: Engine, fixed: Runtime | None, *, is_mounted: bool
) -> None:
    """Check the application at its startup, and log what may be wrong.

    The routes that a mounted application lacks may be those of the outer application.
    """
    endpoints = endpoints_of(app)
    require_sound_endpoints(app, endpoints, engine)
    _report_open(app, endpoints)
    names = {*engine.needed} if is_mounted else {each.name for each in endpoints}
    for remedy in (engine.needed[name] for name in engine.needed if name not in names):
        _log.error("%s", remedy)
    if engine.endings.are_recorded and engine.store.is_in_memory and _has_workers():
        text = "each of the workers has a store of its own, and learns no sign-out of the others"
        engine.announcer.advise("memory", f"{text}: use a store on Redis or SQL")
    if fixed is not None and (fault := unencrypted(fixed.origin)):
        fixed.party.announcer.advise("allow_insecure_http", fault)
    if is_mounted:
        return
    for party in fixed.party.together if fixed is not None else ():
        _report_wishes(engine, party)
        if fault := guessable(party.settings.cookie_secret, party.settings.base_url):
            party.announcer.advise("cookie_secret", fault)
    if engine.signs_in:
        _report_missing_routes(engine.name, routes.by_role, app)
    if engine.signs_in and is_read_by_all(app):
        _log.warning(
            "CORSMiddleware allows every origin, with credentials: pages of any other subdomain "
            "may read what is for a signed-in user, also the CSRF token.\n"
            "Name the origins of your pages in allow_origins."
        )
    for api in engine.apis:
        api.look(partial(_is_served, app, endpoints))
    _report_open_apis(engine.apis, endpoints)


def _has_workers() -> bool:
    """Whether the command line of the server, or its environment, names several processes."""
    started = f"{' '.join(sys.argv)} WEB_CONCURRENCY={os.environ.get('WEB_CONCURRENCY')}"
    found = re.search(r" (?:-w|--workers|WEB_CONCURRENCY)[ =]?(\d+)", started)
    return found is not None and int(found[1]) > 1


def _report_wishes(engine: Engine, party: RelyingParty) -> None:
    """Log a parameter of logins that asks for something, which nothing requires of who returns."""
    application, given = party.application, party.settings.extra_params
    resolve = unwrap(application.resolve_identity)
    read = getattr(resolve, "__code__", standard_identity.__code__).co_names
    if resolve is not standard_identity:
        if "user_info" in read and not party.settings.fetch_userinfo:
            text = "it is False, so that the context.user_info of resolve_identity is None"
            party.announcer.advise("fetch_userinfo", text)
        return
    if application.before_session_persist is not None:
        return
    for name, remedy in _WISHES.items():
        if name in given and not (name == "acr_values" and engine.requires(name)):
            text = f"it asks the provider, and requires nothing of who signs in: {remedy}"
            party.announcer.advise(f"{name} in extra_params", text)


def _report_open(app: Any, endpoints: Sequence[Endpoint]) -> None:
    """Log what the guard of the application does not reach.

    The documentation is one of these routes. Other applications, and routes of Starlette, may call
    a guard themselves.
    """
    has_guard = any(refuses(each.dependency) for each in getattr(app.router, "dependencies", ()))
    if has_guard and (paths := [each.path or "/" for each in endpoints if _is_open(each)]):
        _log.warning(
            "The guard in `dependencies` of the application does not apply to %s.\n"
            "These answer everybody, unless they call a guard themselves: endpoints that were "
            "added before the guard, what is mounted, and pages of FastAPI and Starlette.\n"
            "Pass `dependencies` to FastAPI(...). Give a mounted application guards and "
            'OIDCMiddleware of its own (see the page "Protect everything").',
            ", ".join(paths),
        )


def _is_open(endpoint: Endpoint) -> bool:
    """Whether it depends on no guard. Applications of FastAPI are asked by their endpoints."""
    if endpoint.dependants:
        return not any(map(refuses, endpoint.calls))
    return not isinstance(endpoint.serves, FastAPI | Protected) and not _is_ours(endpoint.serves)


def _is_ours(function: object) -> bool:
    return str(getattr(function, "__module__", "")).startswith("fastapi_oidc.")


def _report_open_apis(apis: Sequence[Any], endpoints: Sequence[Endpoint]) -> None:
    """Log what is open: at the URL of an API, outside of FastAPI, and MCP servers anywhere."""
    urls = {urlsplit(each.resource or "").path.rstrip("/") for each in apis} - {""}
    others = [each for each in endpoints if not isinstance(each.serves, FastAPI | Protected)]
    bare = [each.path for each in others if each.path in urls and not each.dependants]
    if apis and (paths := bare or [each.path for each in others if _serves_mcp(each.serves)]):
        _log.error(
            "What is mounted at %s answers everybody, unless it asks for an access token itself.\n"
            "Write app.mount(..., api.protected(server)), or api.mount(app, ...) for MCP.",
            ", ".join(paths),
        )


def _serves_mcp(app: object) -> bool:
    """Whether it is an application of the package `mcp`, without anything around its server."""
    if not isinstance(app, Starlette) or app.user_middleware:
        return False
    served = [getattr(each, "endpoint", each) for each in app.routes]
    modules = [str(getattr(each, "__module__", "")) for each in served]
    return any(each.startswith("mcp.server.") and ".auth." not in each for each in modules)


def _report_missing_routes(instance: str, mounted: Mapping[Role, str], app: Any) -> None:
    """Log that an instance lacks routes that a login needs."""
    missing = [role for role in _NEEDED if role not in mounted]
    if missing:
        _log.error(
            "OIDC instance %r has no route for: %s.\n"
            "Requests without a session cannot be redirected to sign in.\n"
            "Add the line: app.include_router(oidc.router, prefix='/auth'). A parameter in the "
            "prefix is called {registration}.",
            instance,
            ", ".join(missing),
        )
    for role in (each for each in _NEEDED if each in mounted):
        hiding = _hiding(app, mounted[role], role.route_name(instance))
        if hiding is not None:
            _log.error(
                "The route %s is never reached: requests go to %s, which was added before it.\n"
                "Nobody can sign in.\n"
                "Move app.include_router(oidc.router, ...) above that route.",
                mounted[role],
                getattr(hiding, "path", hiding) or "/",
            )
            return


def _is_served(app: Any, endpoints: Sequence[Endpoint], path: str) -> bool:
    """Whether an endpoint has this path, and gets its requests."""
    here = [str(each.name) for each in endpoints if each.path == path]
    return any(_hiding(app, path, name) is None for name in here)


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
