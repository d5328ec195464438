"""What is wrong with an endpoint, so that its application is refused before its first request.

An endpoint may be open, because its user comes from the request or nothing reads the scopes it
needs. `from __future__ import annotations` turns annotations into strings. FastAPI evaluates them
with the names of the module, so it does not find an `oidc` that is local to a function like
`create_app`. The parameter becomes a query parameter, and every request fails with 422.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import isclass
from types import UnionType
from typing import Any, Final, ForwardRef, Union, get_args, get_origin

from fastapi.dependencies.models import Dependant
from pydantic.fields import FieldInfo

from fastapi_oidc.errors import misconfigured
from fastapi_oidc.session.model import PublicSession, StandardIdentity
from fastapi_oidc.web.application import Endpoint, flattened
from fastapi_oidc.web.guards import FromAPI, RequireAuth
from fastapi_oidc.web.misuse import NAMESAKE, Dependency, annotations_of, are_unrelated, name_of
from fastapi_oidc.web.named_guards import guards_named_by, is_guard, unawaited_call
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.runtime import Engine
from fastapi_oidc.web.serving import Serving

_OPEN: Final = (
    Role.LOGIN,
    Role.CALLBACK,
    Role.LOGGED_OUT,
    Role.BACK_CHANNEL_LOGOUT,
    Role.FRONT_CHANNEL_LOGOUT,
)
"""Routes that must work without a session, for browsers and the provider."""


def require_sound_endpoints(app: Any, endpoints: Sequence[Endpoint], engine: Engine) -> None:
    """Raise ConfigurationError for an endpoint that is a mistake.

    It can never work: its parameter's annotation cannot be evaluated, or it is a route of a login
    and needs a session. Or it is open: it reads an identity from the request, or requires scopes
    of sessions.
    """
    overridden = [*getattr(app, "dependency_overrides", ())]  # no endpoint needs a hash
    open_routes = {role.route_name(engine.name): role for role in _OPEN}
    for endpoint in endpoints:
        role = open_routes.get(endpoint.name or "")
        if role and any(isinstance(call, RequireAuth) for call in endpoint.calls):
            raise misconfigured(_guarded_login(role, endpoint.path))
        called = [each for each in endpoint.dependants if each.call not in overridden]
        for dependant in called:
            for fault in _faults_of(dependant, engine):
                raise misconfigured(f"{endpoint.path}: {fault}")


def _faults_of(dependant: Dependant, engine: Engine) -> Iterator[str]:
    """What is wrong with an endpoint or dependency, for its developer."""
    call: Any = dependant.call
    read = (*dependant.query_params, *dependant.body_params)
    for field in read:
        if fault := _unreadable(field.name, field.field_info, call):
            yield fault
    is_ours = str(getattr(call, "__module__", None)).startswith("fastapi_oidc.")
    if is_ours and isinstance(getattr(call, "__self__", None), Serving):
        yield (
            f"Depends({name_of(call)}) guards nothing, because FastAPI ignores what it "
            "returns: it is for your code, with await. Guards are oidc.require_auth, "
            "oidc.require_role(...) and api.require(...); oidc.optional_user and oidc.locals "
            "guard nothing either, and return the session"
        )
    for guard in filter(is_guard, guards_named_by(dependant)):
        yield (
            f"{qualified(call)} names a "
            f"{name_of(guard)} and does not call it, so it guards nothing. Give FastAPI the guard "
            "itself, Depends(guard), or `await guard(request)` in a function with a parameter "
            "request: Request"
        )
    is_own = call is not None and not is_guard(call)
    source = unawaited_call(call, is_named=bool(dependant.name)) if is_own else None
    if source is not None:
        yield f"{qualified(call)} calls `{source}` without await: it does and checks nothing"
    for each in dependant.dependencies:
        yield from _faults_of_result(dependant, each, engine)
    if is_guard(call):
        yield from _faults_of_scopes(dependant, name_of(call))
        of = getattr(call, "engine", None)
        if of not in (None, engine) and of.name == engine.name:
            yield f"Depends({name_of(call)}): {NAMESAKE.format(engine.name)}"
    fields = (*read, *dependant.header_params, *dependant.cookie_params)
    is_read = any(_is_of_sessions(field.field_info.annotation) for field in fields)
    if is_read or call is engine.identity_type or _is_of_sessions(call):
        yield (
            "the identity would be read from the request, so anybody could choose it. "
            "Write session: Annotated[OIDCSession[User], Depends(oidc.require_auth)], and use "
            "session.identity"
        )


def _faults_of_result(dependant: Dependant, dependency: Dependant, engine: Engine) -> Iterator[str]:
    """What is wrong with what the endpoint makes of a guard's result."""
    guard, name = dependency.call, dependency.name
    if not isinstance(guard, Dependency):
        return
    if name is None and not guard.refuses:
        yield (
            f"Depends({name_of(guard)}) in `dependencies` refuses nobody: it is the result that "
            "says whether somebody is signed in. Write Depends(oidc.require_auth)"
        )
    annotation = annotations_of(dependant.call).get(name or "")
    members = members_of(annotation)
    is_identity = annotation is engine.identity_type or engine.identity_type in members
    if StandardIdentity in (annotation, *members) or (
        is_identity and are_unrelated(engine.identity_type, guard.returns)
    ):
        kind = guard.returns.__name__
        yield (
            f"{name!r} of {qualified(dependant.call)} is annotated as the identity, and "
            f"{name_of(guard)} returns {kind}. Write {name}: Annotated[{kind}[User], Depends(...)],"
            f" and use {name}.identity"
        )


def members_of(annotation: object) -> Sequence[object]:
    """The members of a union; nothing for another annotation."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()


def _faults_of_scopes(dependant: Dependant, name: str) -> Iterator[str]:
    """What is wrong with the scopes of a guard: FastAPI reads a text's letters as scopes."""
    scopes: Sequence[str] = dependant.own_oauth_scopes or ()
    if len(scopes) > 3 and all(len(scope) == 1 for scope in scopes):
        yield (
            f"Security({name}, scopes=...) has a text, and FastAPI "
            f"reads its letters as scopes: {', '.join(scopes)}. Write a list: scopes=[...]"
        )
    for each in flattened(dependant):
        known = each.call.scopes if isinstance(each.call, FromAPI) else ()
        if unknown := [scope for scope in scopes if known and scope not in known]:
            yield f"{unknown[0]!r} is none of the API's scopes: {', '.join(known)}"
    if scopes and not any(each.security_scopes_param_name for each in flattened(dependant)):
        yield (
            f"nothing checks the scopes of Security({name}, ...): only "
            "access tokens have scopes. Write oidc.require(lambda user: ...) for sessions, or "
            "Security(oidc.require_user, scopes=[...])"
        )


def _unreadable(parameter: str, field: FieldInfo, call: object) -> str | None:
    if not (isinstance(annotation := field.annotation, ForwardRef) and field.is_required()):
        return None
    return (
        f"nothing can read the annotation of {parameter!r} in "
        f"{qualified(call)}, {annotation.__forward_arg__!r}. "
        "`from __future__ import annotations` hides names of the function that makes the "
        "application: remove that import from this module, or make `oidc` and its aliases "
        "outside of the function"
    )


def qualified(call: object) -> str:
    """The name of a function or class, with that of the class or function around."""
    return str(getattr(call, "__qualname__", type(call).__name__))


def _is_of_sessions(annotation: object) -> bool:
    """Whether FastAPI would read a session, or a list or union with one, from the request."""
    is_public = isclass(annotation) and issubclass(annotation, PublicSession)
    is_own = is_public or annotation is StandardIdentity
    return is_own or any(map(_is_of_sessions, get_args(annotation)))


def _guarded_login(role: Role, path: str) -> str:
    return (
        f"the {role} route {path} needs a session, so that nobody can sign in: a guard "
        "in `dependencies` of the application or of a router applies to it. Mount it without: "
        f"app.add_route({path!r}, oidc.{role.handler}(), methods=[...]), or all "
        "routes by app.include_router(oidc.router, prefix='/auth')"
    )
