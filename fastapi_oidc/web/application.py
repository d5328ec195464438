"""What the application around an OIDC instance is made of: endpoints, middlewares, overrides."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from fastapi.dependencies.models import Dependant
from fastapi.routing import RouteContext, iter_route_contexts
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.httpsredirect import HTTPSRedirectMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Scope

from fastapi_oidc.errors import Code, misconfigured
from fastapi_oidc.protocol.refusal import shown
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.misuse import Dependency
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.serving import serves

GUARDING_NOTHING: Final[tuple[object, ...]] = (
    CORSMiddleware,
    GZipMiddleware,
    HTTPSRedirectMiddleware,
    TrustedHostMiddleware,
)


class Endpoint(NamedTuple):
    """A route of an application. `dependants` are its own and those of its dependencies.

    `original` is the route of the router in which it was defined.
    """

    path: str
    route: RouteContext | BaseRoute
    original: BaseRoute
    dependants: Sequence[Dependant]

    @property
    def name(self) -> str | None:
        """The name of the route."""
        return getattr(self.route, "name", None)

    @property
    def function(self) -> object:
        """The function or object that serves it; None for a mounted application."""
        return getattr(self.route, "endpoint", None)

    @property
    def methods(self) -> set[str]:
        """Its HTTP methods."""
        return getattr(self.route, "methods", None) or set()

    @property
    def calls(self) -> list[object]:
        """What FastAPI calls for a request: the endpoint and its dependencies."""
        return [each.call for each in self.dependants]


def endpoints_of(app: Any) -> list[Endpoint]:
    """Each endpoint of `app`, also those of included routers and mounted applications."""
    return list(_endpoints(app.routes, ""))


def routers_of(router: Any) -> Iterator[Any]:
    """`router`, and the routers of FastAPI that it includes."""
    yield router
    for route in router.routes:
        if (included := getattr(route, "original_router", None)) is not None:
            yield from routers_of(included)


def plain_endpoints(app: Any) -> list[Endpoint]:
    """Those of Starlette, like those of `mcp`, alone or in an application without middleware.

    So are mounted ASGI applications without routes, if no layer of them is of this library.
    """
    inner = [(each, getattr(each, "app", None)) for each in app.routes]
    plain = [
        each
        for each, app in inner
        if isinstance(each, Route)
        or (type(app) is Starlette and _is_plain(app))
        or (isinstance(each, Mount) and _is_bare(app))
    ]
    return [each for each in _endpoints(plain, "") if not each.dependants]


def _is_plain(app: Starlette) -> bool:
    return all(each.cls in GUARDING_NOTHING for each in app.user_middleware)


def _is_bare(app: object) -> bool:
    """Whether it has no routes, nor anything of this library, also not inside of middlewares."""
    while app is not None:
        parts = (app, *getattr(app, "__dict__", {}).values())
        if hasattr(app, "routes") or any(map(is_of_this_library, parts)):
            return False
        app = getattr(app, "app", None)
    return True


def is_of_this_library(value: object) -> bool:
    """Whether its type is one of this library."""
    return str(type(value).__module__).startswith("fastapi_oidc.")


def calls_of(scope: Scope) -> list[object]:
    """The dependencies of the endpoint that serves a request, also those of its routers."""
    included = scope.get("fastapi", {}).get("effective_route_context")
    return [each.call for each in _dependants(included or scope.get("route"))]


def _endpoints(routes: Sequence[BaseRoute], prefix: str) -> Iterator[Endpoint]:
    for context in iter_route_contexts(routes):
        # FastAPI before 0.144 knows the path of an included route of Starlette in that route only.
        route = getattr(context, "starlette_route", None) or context
        path = prefix + (getattr(route, "path", None) or "")
        yield Endpoint(path, route, context.original_route, list(_dependants(route)))
        yield from _endpoints(getattr(route, "routes", ()), path)


def _dependants(route: object) -> Iterator[Dependant]:
    if (dependant := getattr(route, "dependant", None)) is not None:
        yield from flattened(dependant)


def flattened(dependant: Dependant) -> Iterator[Dependant]:
    """`dependant` and its dependencies."""
    yield dependant
    for dependency in dependant.dependencies:
        yield from flattened(dependency)


def cors_inside(app: Any, instance: str) -> list[Middleware]:
    """The CORSMiddlewares inside OIDCMiddleware; Starlette lists the outermost first."""
    added: list[Middleware] = getattr(app, "user_middleware", [])
    places = [place for place, each in enumerate(added) if serves(each, instance)]
    return list(filter(_is_cors, added[places[-1] + 1 :])) if places else []


def with_cors(app: Any, instance: str, response: ASGIApp) -> ASGIApp:
    """A response of OIDCMiddleware with the CORS headers of the application.

    A CORSMiddleware that was added before OIDCMiddleware does not handle its refusals, and a
    browser would show "Failed to fetch" in place of the 401 (Fetch 3.2.3).
    """
    for each in reversed(cors_inside(app, instance)):
        response = each.cls(response, *each.args, **each.kwargs)
    return response


def is_read_by_all(app: Any) -> bool:
    """Whether pages of every origin may read what the application sends to a browser with cookies.

    Starlette then answers with the origin of the page (Fetch 3.2.5).
    """
    given = [each.kwargs for each in getattr(app, "user_middleware", ()) if _is_cors(each)]
    return any(
        each.get("allow_credentials") and "*" in each.get("allow_origins", ()) for each in given
    )


def _is_cors(middleware: Middleware) -> bool:
    return isinstance(middleware.cls, type) and issubclass(middleware.cls, CORSMiddleware)


def override_of(connection: HTTPConnection, dependency: object) -> Callable[[], Any] | None:
    """The function without parameters that replaces `dependency` in this application.

    FastAPI calls every sub-dependency. A request with an access token needs no session, so
    `require_auth` cannot be a sub-dependency of `require_user`, which asks here. Raises
    ConfigurationError for a function with parameters, which only FastAPI can fill.
    """
    overrides = getattr(connection.scope.get("app"), "dependency_overrides", None)
    override: Callable[..., Any] | None = overrides.get(dependency) if overrides else None
    if override is not None and (
        inspect.signature(override).parameters
        or inspect.isgeneratorfunction(override)
        or inspect.isasyncgenfunction(override)
    ):
        raise misconfigured(
            "require_user calls the override of this dependency itself: use a function without "
            "parameters, or override require_user"
        )
    return override


def faults_of_overrides(app: Any, error: Exception) -> Iterator[str]:
    """What is wrong with the overrides of guards, if it may explain `error`."""
    overrides = getattr(app, "dependency_overrides", {})
    for guard, override in overrides.items():
        if isinstance(guard, Dependency) and not callable(override):
            yield (
                f"The override of {guard.name} is no function: dependency_overrides[...] = lambda: "
                "session_for(...)"
            )
    is_of_session = isinstance(error, AttributeError) and error.name in OIDCSession.model_fields
    if is_of_session and any(isinstance(each, Dependency) for each in overrides):
        yield "An override of a guard returns what the guard does: lambda: session_for(...)"


def advise_on_refusal(context: RequestContext, code: Code) -> None:
    """Log why a refusal may surprise: no CORS headers, a token, an override of nothing."""
    app, headers = context.scope["app"], context.connection.headers
    is_foreign = headers.get("sec-fetch-site") in ("same-site", "cross-site")
    is_script = headers.get("sec-fetch-mode") == "cors"
    if is_foreign and is_script and not any(map(_is_cors, getattr(app, "user_middleware", ()))):
        context.party.announcer.advise(
            "CORSMiddleware",
            f"a script at {shown(headers.get('origin'))} was refused and cannot read why, so that "
            'its browser says "Failed to fetch". If the page is yours, add CORSMiddleware',
        )
    origin, is_here = headers.get("origin"), headers.get("sec-fetch-site") != "cross-site"
    if code is Code.SESSION_REQUIRED and origin in context.runtime.trusted_origins and not is_here:
        context.party.announcer.advise(
            "trusted_origins",
            f"the browser says that {shown(origin)} is another site than {context.origin}, and "
            "sends its scripts no session cookie (SameSite=Lax). Serve the page from the same "
            "site, or let it use access tokens",
        )
    root_path, login = context.root_path, context.path_to(Role.LOGIN) or ""
    below = login.removeprefix(root_path).rpartition("/")[0] if root_path else ""
    if below and login.startswith(f"{root_path}/"):  # else the application itself is at /auth
        context.party.announcer.advise(
            "root_path",
            f"it is {root_path}, and the prefix of the router has it too, so that browsers find "
            f"the login at {root_path}{login}. Include the router with the prefix that is below: "
            f"{below}",
        )
    if code is Code.SESSION_REQUIRED and context.brings_token:
        context.party.announcer.advise(
            "Authorization",
            "an access token was refused, because its endpoint takes sessions only: use "
            "oidc.require_user, or api.require(...) for tokens",
        )
    if (prefix := headers.get("x-forwarded-prefix")) and not context.scope.get("root_path"):
        context.party.announcer.advise(
            "root_path",
            f"a proxy says that it removes the prefix {shown(prefix)}, and the redirects lack it: "
            "start the server with this --root-path",
        )
    calls = [id(each) for each in calls_of(context.scope)]
    overrides = getattr(app, "dependency_overrides", {})
    lost = [
        each for each in overrides if isinstance(each, Dependency | str) and id(each) not in calls
    ]
    if lost:
        name = lost[0] if isinstance(lost[0], str) else lost[0].name
        context.party.announcer.advise(
            "dependency_overrides",
            f"the endpoint that refused a request does not depend on {name}, which is "
            "overridden. Override the object in its Depends(...): each oidc.require_role(...) and "
            "oidc.require(...) makes another one, and all of them depend on oidc.require_auth",
        )
