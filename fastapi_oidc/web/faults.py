"""What is wrong with an endpoint, so that its application is refused before its first request.

An endpoint may be open, because its user comes from the request or nothing reads the scopes it
needs. `from __future__ import annotations` turns annotations into strings. FastAPI evaluates them
with the names of the module, so it does not find an `oidc` that is local to a function like
`create_app`. The parameter becomes a query parameter, and every request fails with 422.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import isclass
from typing import Any, ForwardRef, get_args

from fastapi.dependencies.models import Dependant
from pydantic.fields import FieldInfo

from fastapi_oidc.errors import misconfigured
from fastapi_oidc.session.model import PublicSession, StandardIdentity
from fastapi_oidc.web.application import Endpoint, flattened
from fastapi_oidc.web.guards import FromAPI
from fastapi_oidc.web.misuse import Dependency, name_with
from fastapi_oidc.web.runtime import Engine
from fastapi_oidc.web.serving import Serving
from fastapi_oidc.web.unawaited import unawaited_call, unread_guards


def require_sound_endpoints(app: Any, endpoints: Sequence[Endpoint], engine: Engine) -> None:
    """Raise ConfigurationError for an endpoint that is a mistake.

    It can never work, because its parameter's annotation cannot be evaluated. Or it is open: it
    calls a guard without `await`, reads an identity from the request, or requires scopes of
    sessions.
    """
    overridden = [*getattr(app, "dependency_overrides", ())]  # no endpoint needs a hash
    for endpoint in endpoints:
        for dependant in (each for each in endpoint.dependants if each.call not in overridden):
            for fault in _faults_of(dependant, engine):
                raise misconfigured(f"{endpoint.path}: {fault}")


def _faults_of(dependant: Dependant, engine: Engine) -> Iterator[str]:
    """What is wrong with an endpoint or dependency, for its developer."""
    call: Any = dependant.call
    if isinstance(call, Dependency):
        yield from _faults_of_scopes(dependant, call.name)
        if dependant.name is None and not call.refuses:
            yield (
                f"Depends({call.name}) in `dependencies` refuses nobody: it is the result that "
                "says whether somebody is signed in. Write Depends(oidc.require_auth)"
            )
        return
    owner, module = getattr(call, "__self__", None), str(getattr(call, "__module__", None))
    if isinstance(owner, Serving) and module.startswith("fastapi_oidc."):
        yield (
            f"Depends({name_with(call, owner)}) guards nothing, because FastAPI ignores what it "
            "returns: it is for your code, with await. Guards are oidc.require_auth, "
            "oidc.require_role(...) and api.require(...)"
        )
    if source := unawaited_call(call):
        yield f"{_qualified(call)} calls `{source}` without await: it does and checks nothing"
    read_by_fastapi: list[object] = [each.call for each in dependant.dependencies]
    for guard in (each for each in unread_guards(call) if each not in read_by_fastapi):
        yield (
            f"{_qualified(call)} declares Depends({guard.name}) where FastAPI reads no dependency: "
            "declare it as a parameter of the function that is decorated. Of a class with "
            "`__call__` write Depends(Name()), an instance"
        )
    read = (*dependant.query_params, *dependant.body_params)
    for field in read:
        yield from _faults_of_parameter(field.name, field.field_info, call)
    fields = (*read, *dependant.header_params, *dependant.cookie_params)
    is_read = any(_is_of_sessions(field.field_info.annotation) for field in fields)
    if is_read or call is engine.identity_type or _is_of_sessions(call):
        yield (
            "the identity would be read from the request, so anybody could choose it. "
            "Write session: Annotated[OIDCSession[User], Depends(oidc.require_auth)], and use "
            "session.identity"
        )


def _faults_of_scopes(dependant: Dependant, name: str) -> Iterator[str]:
    """What is wrong with the scopes of a guard."""
    scopes: Sequence[str] = dependant.own_oauth_scopes or ()
    apis = [each.call for each in flattened(dependant) if isinstance(each.call, FromAPI)]
    for api in apis:
        if unknown := [scope for scope in scopes if api.scopes and scope not in api.scopes]:
            yield f"{unknown[0]!r} is none of the API's scopes: {', '.join(api.scopes)}"
    if scopes and not any(each.security_scopes_param_name for each in flattened(dependant)):
        yield (
            f"nothing checks the scopes of Security({name}, ...): only "
            "access tokens have scopes. Write oidc.require(lambda user: ...) for sessions, or "
            "Security(oidc.require_user, scopes=[...])"
        )


def _faults_of_parameter(parameter: str, field: FieldInfo, call: object) -> Iterator[str]:
    """What is wrong with a parameter that FastAPI would read from the request."""
    where = f"{parameter!r} of {_qualified(call)}"
    if issubclass(type(field.default), Dependency):
        yield f"the guard of {where} is never called: write Depends(...) around it"
    if isinstance(annotation := field.annotation, ForwardRef) and field.is_required():
        yield (
            f"nothing can read the annotation of {where}, {annotation.__forward_arg__!r}. "
            "`from __future__ import annotations` hides names of the function that makes the "
            "application: remove that import from this module, or make `oidc` and its aliases "
            "outside of the function"
        )


def _qualified(call: object) -> str:
    """The name of a function or class, with that of the class or function around."""
    return str(getattr(call, "__qualname__", type(call).__name__))


def _is_of_sessions(annotation: object) -> bool:
    """Whether FastAPI would read a session, or a list or union with one, from the request."""
    is_public = isclass(annotation) and issubclass(annotation, PublicSession)
    is_own = is_public or annotation is StandardIdentity
    return is_own or any(map(_is_of_sessions, get_args(annotation)))
