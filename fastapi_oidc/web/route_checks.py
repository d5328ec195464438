"""Finds mistakes in an application's endpoints that FastAPI ignores, before the first request.

`from __future__ import annotations` turns annotations into strings. FastAPI evaluates them with the
names of the module, so it does not find an `oidc` that is local to a function like `create_app`.
The parameter becomes a query parameter, and every request fails with 422.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, ForwardRef

from fastapi.dependencies.models import Dependant
from fastapi.routing import RouteContext, iter_route_contexts
from starlette.routing import BaseRoute
from starlette.types import Scope

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.web.dependencies import RequireAuth
from fastapi_oidc.web.routes import Role

_OPEN: Final = (
    Role.LOGIN,
    Role.CALLBACK,
    Role.LOGGED_OUT,
    Role.BACK_CHANNEL_LOGOUT,
    Role.FRONT_CHANNEL_LOGOUT,
)
"""Routes that must work without a session, for browsers and the provider."""

_HANDLERS: Final[Mapping[Role, str]] = {role: f"{role.name.lower()}_handler" for role in _OPEN}


def require_sound_routes(app: Any, instances: Collection[str]) -> None:
    """Raise ConfigurationError for an endpoint of `app`, or of an app in it, that can never work.

    Such endpoints have a parameter whose annotation cannot be evaluated, or are routes of a login
    that need a session.
    """
    open_routes = {role.route_name(name): role for name in instances for role in _OPEN}
    for path, route in _routes(app.routes):
        dependant: Dependant | None = getattr(route, "dependant", None)
        if dependant is None:
            continue
        calls = [each.call for each in _flattened(dependant)]
        if (role := open_routes.get(route.name or "")) is not None:
            _require_open(path, role, calls)
        for each in _flattened(dependant):
            _require_readable(path, each)


def calls_of(scope: Scope) -> list[object]:
    """The dependencies of the endpoint that serves a request, also those of its routers."""
    included = scope.get("fastapi", {}).get("effective_route_context")
    dependant = getattr(included or scope.get("route"), "dependant", None)
    return [] if dependant is None else [each.call for each in _flattened(dependant)]


def _routes(routes: Sequence[BaseRoute], prefix: str = "") -> Iterator[tuple[str, RouteContext]]:
    """Each route with its path, also those of mounted applications."""
    for route in iter_route_contexts(routes):
        path = prefix + (route.path or "")
        yield path, route
        yield from _routes(getattr(route, "routes", ()), path)


def _flattened(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for dependency in dependant.dependencies:
        yield from _flattened(dependency)


def _require_open(path: str, role: Role, calls: Collection[object]) -> None:
    if any(isinstance(call, RequireAuth) for call in calls):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            f"the {role} route {path} needs a session, so that nobody can sign in: a guard "
            "in `dependencies` of the application or of a router applies to it. Mount it without: "
            f"app.add_route({path!r}, oidc.{_HANDLERS[role]}(), methods=[...]), or all "
            "routes by app.include_router(oidc.router, prefix='/auth')",
        )


def _require_readable(path: str, dependant: Dependant) -> None:
    for field in (*dependant.query_params, *dependant.body_params):
        annotation = field.field_info.annotation
        if isinstance(annotation, ForwardRef) and field.field_info.is_required():
            name = getattr(dependant.call, "__qualname__", dependant.call)
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID,
                f"{path}: nothing can read the annotation of {field.name!r} in {name}, "
                f"{annotation.__forward_arg__!r}. `from __future__ import annotations` hides "
                "names of the function that makes the application: remove that import from this "
                "module, or make `oidc` and its aliases outside of the function",
            )
