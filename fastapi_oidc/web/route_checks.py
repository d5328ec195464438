"""Finds mistakes in an application's endpoints that FastAPI ignores, before the first request.

An endpoint may be open: its user comes from the request, or nothing reads the scopes it needs.

`from __future__ import annotations` turns annotations into strings. FastAPI evaluates them with the
names of the module, so it does not find an `oidc` that is local to a function like `create_app`.
The parameter becomes a query parameter, and every request fails with 422.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from inspect import isclass
from types import FunctionType
from typing import Any, Final, ForwardRef, get_args

from fastapi.dependencies.models import Dependant
from fastapi.routing import RouteContext, iter_route_contexts
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.identity import StandardIdentity
from fastapi_oidc.session.model import PublicSession
from fastapi_oidc.web.dependencies import Locals, OptionalUser, RequireAuth
from fastapi_oidc.web.misuse import Dependency, name_of
from fastapi_oidc.web.named_guards import names_this_library, uncalled_guard
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.serving import Serving

_OPEN: Final = (
    Role.LOGIN,
    Role.CALLBACK,
    Role.LOGGED_OUT,
    Role.BACK_CHANNEL_LOGOUT,
    Role.FRONT_CHANNEL_LOGOUT,
)
"""Routes that must work without a session, for browsers and the provider."""

_HANDLERS: Final[Mapping[Role, str]] = {role: f"{role.name.lower()}_handler" for role in _OPEN}


def require_sound_routes(app: Any, instances: Collection[str], identity: object) -> None:
    """Raise ConfigurationError for an endpoint of `app`, or of an app in it, that is a mistake.

    It can never work: its parameter's annotation cannot be evaluated, or it is a route of a login
    and needs a session. Or it is open: it reads an `identity` from the request, or requires scopes
    of sessions.
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
            _require_no_method(path, each.call)
            _require_no_uncalled_guard(path, each)
            _require_whole_scopes(path, each)
            _require_no_scopes(path, each)
            _require_no_identity(path, each, identity)


def open_paths(app: Any) -> list[str]:
    """The paths of endpoints and files to which the guard of `app` does not apply.

    None are found unless `app` has a guard for all of its endpoints. A subclass of StaticFiles may
    have a guard of its own, and an endpoint of Starlette may call one.
    """
    if not any(_refuses(each.dependency) for each in app.router.dependencies):
        return []
    found = [path for path, route in _routes(app.routes) if _is_open(route)]
    mounts = [each for each in app.routes if isinstance(each, Mount)]
    return found + [each.path for each in mounts if type(each.app) is StaticFiles]


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


def _is_open(route: RouteContext) -> bool:
    dependant: Dependant | None = getattr(route, "dependant", None)
    if dependant is not None:
        return not any(_refuses(each.call) for each in _flattened(dependant))
    if not isinstance(plain := route.endpoint, FunctionType):
        return False
    is_public = plain.__module__.startswith("fastapi")  # as the documentation and a login
    return not is_public and not names_this_library(plain)


def _refuses(call: object) -> bool:
    return isinstance(call, Dependency) and not isinstance(call, Locals | OptionalUser)


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


def _require_no_method(path: str, call: Any) -> None:
    if isinstance(getattr(call, "__self__", None), Serving):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            f"{path}: Depends({name_of(call)}) guards nothing, because FastAPI ignores what it "
            "returns: it is for your code, with await. Guards are oidc.require_auth, "
            "oidc.require_role(...) and api.require(...); oidc.optional_user and oidc.locals "
            "guard nothing either, and return the session",
        )


def _require_no_uncalled_guard(path: str, dependant: Dependant) -> None:
    call = dependant.call
    fields = (*dependant.query_params, *dependant.body_params)
    found: list[object] = [field.field_info.default for field in fields]
    if call is not None and not _is_guard(call):
        found.append(uncalled_guard(call, has_request=_has_request(dependant)))
    for guard in filter(_is_guard, found):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            f"{path}: {getattr(call, '__qualname__', type(call).__name__)} names a "
            f"{name_of(guard)} and does not call it, so it guards nothing. Give FastAPI the guard "
            "itself, Depends(guard), or `await guard(request)` in a function with a parameter "
            "request: Request",
        )


def _is_guard(call: object) -> bool:
    return isinstance(call, Dependency)


def _has_request(dependant: Dependant) -> bool:
    """Whether FastAPI passes the request to the function, or to what makes its arguments."""
    others = (each for each in dependant.dependencies if not _is_guard(each.call))
    return (
        dependant.request_param_name is not None
        or dependant.websocket_param_name is not None
        or dependant.http_connection_param_name is not None
        or any(map(_has_request, others))
    )


def _require_no_scopes(path: str, dependant: Dependant) -> None:
    readers = (each.security_scopes_param_name for each in _flattened(dependant))
    if isinstance(dependant.call, Dependency) and dependant.own_oauth_scopes and not any(readers):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            f"{path}: nothing checks the scopes of Security({name_of(dependant.call)}, ...): only "
            "access tokens have scopes. Write oidc.require(lambda user: ...) for sessions, or "
            "Security(oidc.require_user, scopes=[...])",
        )


def _is_of_sessions(annotation: object) -> bool:
    """Whether a session's value, or a list or union with one, would be read from the request."""
    is_public = isclass(annotation) and issubclass(annotation, PublicSession)
    is_own = is_public or annotation is StandardIdentity
    return is_own or any(map(_is_of_sessions, get_args(annotation)))


def _require_whole_scopes(path: str, dependant: Dependant) -> None:
    scopes: Sequence[str] = dependant.own_oauth_scopes or ()
    are_letters = len(scopes) > 2 and all(len(scope) == 1 for scope in scopes)
    if are_letters and isinstance(dependant.call, Dependency):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            f"{path}: Security({name_of(dependant.call)}, scopes=...) has a text, and FastAPI "
            f"reads its letters as scopes: {', '.join(scopes)}. Write a list: scopes=[...]",
        )


def _require_no_identity(path: str, dependant: Dependant, identity: object) -> None:
    fields = (
        *(*dependant.query_params, *dependant.header_params),
        *(*dependant.cookie_params, *dependant.body_params),
    )
    is_read = any(_is_of_sessions(field.field_info.annotation) for field in fields)
    if is_read or dependant.call is identity or _is_of_sessions(dependant.call):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            f"{path}: the identity would be read from the request, so anybody could choose it. "
            "Write session: Annotated[OIDCSession[User], Depends(oidc.require_auth)], and use "
            "session.identity",
        )
