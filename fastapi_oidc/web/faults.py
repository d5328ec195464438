"""What is wrong with an endpoint, so that its application is refused before its first request.

An endpoint may be open, because its user comes from the request or nothing reads the scopes it
needs. `from __future__ import annotations` turns annotations into strings. FastAPI evaluates them
with the names of the module, so it does not find an `oidc` that is local to a function like
`create_app`. The parameter becomes a query parameter, and every request fails with 422.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from textwrap import dedent
from types import MethodType, ModuleType
from typing import Any, ForwardRef, cast, get_args, get_origin

from fastapi.dependencies.models import Dependant
from fastapi.params import Depends
from pydantic.fields import FieldInfo

from fastapi_oidc.errors import misconfigured
from fastapi_oidc.session.model import PublicSession, StandardIdentity
from fastapi_oidc.web.application import Endpoint, flattened
from fastapi_oidc.web.guards import FromAPI
from fastapi_oidc.web.misuse import Awaited, Dependency, is_a, name_with
from fastapi_oidc.web.runtime import Engine, OIDCLocals
from fastapi_oidc.web.serving import Serving


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
    if source := _unawaited_call(call, is_dropped=dependant.name is None):
        yield f"{_qualified(call)} calls `{source}` without await: it does and checks nothing"
    read_by_fastapi: list[object] = [each.call for each in dependant.dependencies]
    for guard in (each for each in _unread_guards(call) if each not in read_by_fastapi):
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
    if is_a(field.default, Dependency):
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
    is_public = inspect.isclass(annotation) and issubclass(annotation, PublicSession)
    is_own = is_public or annotation is StandardIdentity or get_origin(annotation) is OIDCLocals
    return is_own or any(map(_is_of_sessions, get_args(annotation)))


def _unawaited_call(call: Any, *, is_dropped: bool) -> str | None:
    """The source of a statement that calls a guard or coroutine of this library, or None.

    What `call` returns may be awaited. If FastAPI drops it, the request is refused. But a guard
    that has been made before is lost in silence where a result `is_dropped`.
    """
    function = inspect.unwrap(call)
    names = _names_of(function)
    if not any(is_a(each, Dependency, Awaited, ModuleType) for each in names.values()):
        return None
    for node in _own_nodes(_syntax_of(function)):
        called = node.value if isinstance(node, ast.Expr) else None
        if isinstance(called, ast.Call) and _is_to_be_used(_value_of(called.func, names)):
            return ast.unparse(called)
        returned = node.value if isinstance(node, ast.Return) and is_dropped else None
        if returned is not None and is_a(_value_of(returned, names), Dependency):
            return ast.unparse(returned)
    return None


def _names_of(function: Any) -> Mapping[str, Any]:
    """The variables of other scopes that the function's code has; nothing for another object."""
    with suppress(TypeError, ValueError):  # no function, or a variable that has no value yet
        found = inspect.getclosurevars(function)
        own = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
        names = {**found.globals, **found.nonlocals}
        return {name: value for name, value in names.items() if name not in own}
    return {}


def _syntax_of(function: Any) -> ast.AST:
    """The definition of a function; an empty one without source, and for a lambda."""
    with suppress(Exception):  # such as TokenError, if the file has changed
        (defined,) = ast.parse(dedent(inspect.getsource(function))).body
        return defined
    return ast.Pass()


def _own_nodes(syntax: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a function in order, without the functions and classes in it."""
    for node in ast.iter_child_nodes(syntax):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
            yield from _own_nodes(node)


def _value_of(name: ast.expr, names: Mapping[str, Any]) -> Any:
    """What a name or an attribute of ours is; None if only running the code would tell."""
    if isinstance(name, ast.Name):
        return names.get(name.id)
    if isinstance(name, ast.Attribute):
        owner = _value_of(name.value, names)
        with suppress(Exception):  # a property may need a request, and a proxy may raise
            if is_a(owner, Awaited):
                return getattr(owner, name.attr)
            return inspect.getattr_static(owner, name.attr, None)
    return None


def _is_to_be_used(value: Any) -> bool:
    """Whether its call is a coroutine of this library, or a guard."""
    if is_a(value, MethodType) and is_a(value.__self__, Awaited):
        makes_a_guard = value.__name__.startswith("require")
        return makes_a_guard or inspect.iscoroutinefunction(inspect.unwrap(value))
    return is_a(value, Dependency)


def _unread_guards(call: Any) -> Iterator[Dependency]:
    """The guards among parameters that FastAPI does not read.

    Of a class it reads `__init__`, and of a decorated function the one that is decorated.
    """
    unread = [vars(call).get("__call__")] if inspect.isclass(call) else []
    while (wrapped := getattr(call, "__wrapped__", None)) is not None:
        unread.append(call)
        call = wrapped
    for each in filter(None, unread):
        for declared in _declared(each):
            if isinstance(declared, Depends) and is_a(declared.dependency, Dependency):
                yield cast("Dependency", declared.dependency)


def _declared(function: Any) -> Iterator[object]:
    """The default values of the parameters, and what is in their annotations."""
    with suppress(Exception):  # an annotation that nothing can evaluate has an error of its own
        signature = inspect.signature(function, follow_wrapped=False, eval_str=True)
        for parameter in signature.parameters.values():
            yield parameter.default
            yield from get_args(parameter.annotation)[1:]
