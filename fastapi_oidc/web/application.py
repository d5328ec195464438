"""What the application around an OIDC instance is made of: endpoints, middlewares, overrides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute
from starlette.types import Scope

from fastapi_oidc.errors import Code
from fastapi_oidc.protocol.refusal import shown
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.misuse import Dependency
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.serving import serves

_ONE_KIND: Final = (
    "{} was refused, because its endpoint takes {} only: use oidc.require_user for both, or "
    "api.require(...) for tokens"
)


class Endpoint(NamedTuple):
    """A route of an application. `dependants` are its own and those of its dependencies.

    `serves` is its function, or the application that is mounted there.
    """

    path: str
    name: str | None
    serves: object
    dependants: Sequence[Dependant]

    @property
    def calls(self) -> list[object]:
        """What FastAPI calls for a request: the endpoint and its dependencies."""
        return [each.call for each in self.dependants]


def endpoints_of(app: Any) -> list[Endpoint]:
    """Each endpoint of `app`, also those of included routers and mounted applications."""
    return list(_endpoints(app.routes, ""))


def dependants_of(scope: Scope) -> list[Dependant]:
    """The dependencies of the endpoint that serves a request, also those of its routers."""
    included = scope.get("fastapi", {}).get("effective_route_context")
    return list(_dependants(included or scope.get("route")))


def _endpoints(routes: Sequence[BaseRoute], prefix: str) -> Iterator[Endpoint]:
    for context in iter_route_contexts(routes):
        # FastAPI before 0.144 knows the path of an included route of Starlette in that route only.
        route = getattr(context, "starlette_route", None) or context
        path = prefix + (getattr(route, "path", None) or "")
        serves = getattr(route, "endpoint", None) or getattr(route, "app", None)
        yield Endpoint(path, getattr(route, "name", None), serves, list(_dependants(route)))
        yield from _endpoints(getattr(route, "routes", ()), path)


def _dependants(route: object) -> Iterator[Dependant]:
    if (dependant := getattr(route, "dependant", None)) is not None:
        yield from flattened(dependant)


def flattened(dependant: Dependant) -> Iterator[Dependant]:
    """`dependant` and its dependencies."""
    yield dependant
    for dependency in dependant.dependencies:
        yield from flattened(dependency)


def is_read_by_all(app: Any) -> bool:
    """Whether pages of every origin may read what a browser's cookies get (Fetch 3.2.5)."""
    given = [each.kwargs for each in getattr(app, "user_middleware", ()) if _is_cors(each)]
    return any(
        "*" in each.get("allow_origins", ())
        or re.fullmatch(each.get("allow_origin_regex") or "", "https://anybody.invalid")
        for each in given
        if each.get("allow_credentials")
    )


def advise_on_root_path(context: RequestContext) -> None:
    """Log that browsers look for a login elsewhere, because of a wrong prefix."""
    root, login = context.root_path, context.path_to(Role.LOGIN) or ""
    prefix = context.connection.headers.get("x-forwarded-prefix", "").partition(",")[0].strip("/ ")
    fault = ""
    if login and prefix and f"/{prefix}/" not in f"{root}{context.path}/":
        fault = (
            f"a proxy removes {shown(prefix)} from paths: start the server with this --root-path"
        )
    elif root and login.startswith(f"{root}/") and login.removeprefix(root).count("/") > 1:
        fault = f"the prefix of oidc.router has it too, for a login at {root}{login}: leave it out"
    if fault:
        context.party.announcer.advise("root_path", fault)


def _is_cors(middleware: Middleware) -> bool:
    return isinstance(middleware.cls, type) and issubclass(middleware.cls, CORSMiddleware)


def override_of(connection: HTTPConnection, dependency: object) -> Callable[[], Any] | None:
    """The function without parameters that replaces `dependency` in this application.

    FastAPI calls every sub-dependency. A request with an access token needs no session, so
    `require_auth` cannot be a sub-dependency of `require_user`, which asks here.
    """
    app: Any = connection.scope.get("app")
    overrides: dict[object, Callable[[], Any]] = getattr(app, "dependency_overrides", {})
    return overrides.get(dependency)


def advise_on_refusal(context: RequestContext, code: Code) -> None:
    """Log why a refusal may surprise."""
    advise_on_root_path(context)
    for setting, text in _surprises(context, code):
        context.party.announcer.advise(setting, text)


def _surprises(context: RequestContext, code: Code) -> Iterator[tuple[str, str]]:
    """No CORS headers, another site or path, a token too much, a lost override."""
    app, headers = context.scope["app"], context.connection.headers
    origin, site = shown(headers.get("origin")), headers.get("sec-fetch-site")
    is_script = site in ("same-site", "cross-site") and headers.get("sec-fetch-mode") == "cors"
    outermost_first: list[Middleware] = getattr(app, "user_middleware", [])
    outside = takewhile(lambda each: not serves(each, context.name), outermost_first)
    if is_script and not any(map(_is_cors, outside)):
        yield (
            "CORSMiddleware",
            f"a script at {origin} was refused and cannot read why, so that its browser says "
            '"Failed to fetch". If the page is yours, add CORSMiddleware after OIDCMiddleware',
        )
    if code is Code.SESSION_REQUIRED:
        if context.is_excluded:
            yield "exclude", f"{context.path} is below it, where guards refuse all the same"
        if site == "cross-site" and headers.get("origin") in context.runtime.trusted_origins:
            yield (
                "trusted_origins",
                f"a page of {origin} has no session here, because browsers send the cookie to no "
                "other site: serve both from subdomains of one domain",
            )
        if context.is_at_own_route:
            yield (
                "require_auth",
                f"it refuses {context.path}, where people sign in: let a middleware that calls a "
                "guard pass the routes of oidc.router",
            )
        if context.brings_token:
            yield "Authorization", _ONE_KIND.format("an access token", "sessions")
    elif code is Code.ACCESS_TOKEN_REQUIRED:
        if "authorization" in headers:
            yield "Authorization", "its scheme is neither Bearer nor DPoP"
        if context.known:
            yield "api.require", _ONE_KIND.format("a session", "access tokens")
    first: Any = context.first_app
    replaced = getattr(first, "dependency_overrides", ())
    guards = [each for each in replaced if isinstance(each, Dependency)]
    used = [call for each in (endpoints_of(first) if guards else ()) for call in each.calls]
    for lost in [each for each in guards if each not in used][:1]:
        yield (
            "dependency_overrides",
            f"no endpoint depends on {lost.name}, which is overridden. Override the object in the "
            "Depends(...) of an endpoint: each oidc.require_role(...) and oidc.require(...) makes "
            "another one, and all of them depend on oidc.require_auth",
        )
