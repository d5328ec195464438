"""Finds what a function names without running it, such as a guard that it never calls."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dis import get_instructions
from functools import partial
from inspect import (
    getattr_static,
    getclosurevars,
    getsource,
    isclass,
    iscoroutinefunction,
    unwrap,
)
from itertools import chain
from textwrap import dedent
from types import FunctionType, MethodType
from typing import Any, Final, NamedTuple, cast, get_args

from fastapi.dependencies.models import Dependant
from fastapi.params import Depends
from starlette.responses import Response

from fastapi_oidc.web.application import GUARDING_NOTHING, Endpoint, is_of_this_library
from fastapi_oidc.web.misuse import Dependency, defines_routes, refuses
from fastapi_oidc.web.serving import Serving

_ENDS: Final = ("RETURN_VALUE", "YIELD_VALUE", "POP_TOP")
_LIBRARIES: Final = ("fastapi", "fastapi_oidc")
_VARIABLES: Final = ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_FAST")
_READS: Final = ("LOAD_ATTR", "LOAD_METHOD")
"""A guard's attribute is read, such as its name."""


def is_guard(call: object) -> bool:
    """Whether it is a guard of this library."""
    return _is_a(call, Dependency)


def _is_a(value: object, kind: type) -> bool:
    """Like `isinstance`, without `__class__`: a proxy would load what it stands for, or raise."""
    return issubclass(type(value), kind)


def guards_named_by(dependant: Dependant) -> Iterator[object]:
    """What stands where FastAPI calls no guard: a default value, or a name in the code."""
    for field in (*dependant.query_params, *dependant.body_params):
        yield field.field_info.default
    if dependant.call is not None and not is_guard(dependant.call):
        yield uncalled_guard(dependant.call, has_request=_has_request(dependant))
    read = [each.call for each in dependant.dependencies]
    declared = [each.dependency for each in _declared(dependant.call) if _is_a(each, Depends)]
    yield from (each for each in declared if each not in read)


def _declared(call: Any) -> Iterator[Any]:
    """What declares dependencies where FastAPI reads none.

    Of a class it reads `__init__`, without the attributes. Of a decorated function it reads the
    parameters of the function, without those of the decorator.
    """
    if isclass(call):
        annotations = vars(call).get("__annotations__", {}).values()
        yield from chain(vars(call).values(), *(get_args(each)[1:] for each in annotations))
    for wrapper in _opened(call).wrappers:
        if _is_a(wrapper, FunctionType):
            yield from wrapper.__defaults__ or ()
            yield from (wrapper.__kwdefaults__ or {}).values()


def _has_request(dependant: Dependant) -> bool:
    """Whether FastAPI passes the request to the function, or to what makes its arguments."""
    others = (each for each in dependant.dependencies if not is_guard(each.call))
    return (
        dependant.request_param_name is not None
        or dependant.websocket_param_name is not None
        or dependant.http_connection_param_name is not None
        or any(map(_has_request, others))
    )


def uncalled_guard(call: Callable[..., Any], *, has_request: bool) -> Dependency | None:
    """A guard that `call` names and cannot call; None if there is none.

    With a request a guard is not called where its name is returned, yielded or dropped. Without
    one it is called nowhere, unless the code calls it with a request of a context variable.
    """
    function, given, wrappers = _opened(call)
    if not has_request:
        for value in given:
            if is_guard(value):
                return cast("Dependency", value)
    if function is None or defines_routes(function.__code__):
        return None
    ends = ("POP_TOP",) if any(map(iscoroutinefunction, wrappers)) else _ENDS
    named = [
        value
        for value, then in _loaded(function, given[-1])
        if is_guard(value) and (then in ends if has_request else then not in _READS)
    ]
    if not named or (not has_request and _calls_a_guard(function, given[-1])):
        return None
    return cast("Dependency", named[0])


def _calls_a_guard(function: FunctionType, owner: object) -> bool:
    calls = (each for each in _nodes(function) if isinstance(each, ast.Call))
    return any(is_guard(_value_of(each.func, function, owner)) for each in calls)


def is_open(endpoint: Endpoint) -> bool:
    """Whether nothing that this library has guards the endpoint, or the application mounted there.

    One that is no function of FastAPI may call a guard; then its code or attributes have it.
    """
    if endpoint.dependants:
        return not any(map(refuses, endpoint.calls))
    route = endpoint.route
    plain: Any = endpoint.function or getattr(route, "app", None)
    if plain is None or getattr(route, "routes", None):  # whose endpoints are looked at
        return False
    while isinstance(plain, partial):
        plain = plain.func
    plain = getattr(plain, "__func__", plain)
    made: Any = plain if _is_a(plain, FunctionType) or isclass(plain) else type(plain)
    # Executed code has no module, and that of a proxy is a property.
    if str(made.__module__).partition(".")[0] in _LIBRARIES:  # as the documentation and a login
        return False
    functions = [made] if _is_a(made, FunctionType) else vars(made).values()
    own = vars(plain).values() if made is type(plain) and hasattr(plain, "__dict__") else ()
    return not (
        any(map(is_of_this_library, own))
        or any(_names_this_library(each) for each in functions if _is_a(each, FunctionType))
    )


def is_unguarded(app: Any, endpoints: Sequence[Endpoint]) -> bool:
    """Whether nothing of the application, which has endpoints, can ask who is signed in.

    FastAPI passes the request to none of them and calls no guard, nor is there a middleware.
    """
    parts = (app, *(getattr(each.route, "app", None) for each in endpoints))
    added = [each.cls for part in parts for each in getattr(part, "user_middleware", ())]
    plain = all(each in GUARDING_NOTHING or _package(each) == "fastapi_oidc" for each in added)
    own = [each for each in endpoints if each.dependants or not _is_of_a_library(each)]
    return bool(own) and plain and not any(map(_may_ask, own))


def _may_ask(endpoint: Endpoint) -> bool:
    """Whether the endpoint or a dependency gets the request; a route of another kind has it."""
    if not endpoint.dependants or _package(endpoint.original) != "fastapi":
        return True
    return any(map(is_guard, endpoint.calls)) or _has_request(endpoint.dependants[0])


def _is_of_a_library(endpoint: Endpoint) -> bool:
    """Whether it is a page of the documentation, a route of a login or a mount without code."""
    served = endpoint.function or getattr(endpoint.route, "app", None)
    return served is None or _package(served) in (*_LIBRARIES, "starlette")


def _package(value: Any) -> str:
    """The package of a function, a class, or of the class of an object."""
    made = value if _is_a(value, FunctionType) or _is_a(value, type) else type(value)
    return str(made.__module__).partition(".")[0]


def _names_this_library(function: FunctionType) -> bool:
    """Whether the code of `function` names an object of this library, which may guard it."""
    with suppress(ValueError):  # a variable that has no value yet
        named = getclosurevars(function)
        values = (*named.nonlocals.values(), *named.globals.values())
        return any(map(is_of_this_library, values))
    return True


def returned_response(call: Any) -> type[Response | Exception] | None:
    """A class of responses or errors that the source of `call` returns; None if there is none."""
    function, _, wrappers = _opened(call)
    if function is None or wrappers:
        return None
    for module in _nodes(function):
        values = _returned(module.body[0]) if isinstance(module, ast.Module) else ()
        for value in chain.from_iterable(map(_alternatives, values)):
            made = None
            if isinstance(value, ast.Call):
                made = function.__globals__.get(ast.unparse(value.func))
            if isclass(made) and issubclass(made, Response | Exception):
                return made
    return None


def _alternatives(value: ast.expr) -> Sequence[ast.expr]:
    """The expressions one of which is the value."""
    if isinstance(value, ast.IfExp):
        return (value.body, value.orelse)
    return value.values if isinstance(value, ast.BoolOp) else (value,)


def unawaited_call(call: Callable[..., Any], *, is_named: bool) -> str | None:
    """The source of a call in `call` that needs an `await` and has none; None if there is none.

    Found are calls of this library whose result is dropped, only asked whether it is true, or
    returned to FastAPI, which awaits no result. An asynchronous decorator, or the function that has
    a parameter for a dependency that `is_named`, may await what it returns.
    """
    function, given, wrappers = _opened(call)
    if function is None:
        return None
    # Its source takes a millisecond to read, its code a tenth.
    if not any(_is_to_be_awaited(value) for value, _ in _loaded(function, given[-1])):
        return None
    for node in _nodes(function):
        if isinstance(node, ast.Module) and (is_named or any(map(iscoroutinefunction, wrappers))):
            continue
        for each in _asked(node):
            if isinstance(each, ast.Call):
                value = _value_of(each.func, function, given[-1])
                if _is_to_be_awaited(value):
                    return ast.unparse(each)
    return None


def _asked(node: ast.AST) -> Sequence[ast.expr]:
    """The expressions that `node` drops, or of which it asks whether they are true."""
    if isinstance(node, ast.Module):
        return list(_returned(node.body[0]))
    if isinstance(node, ast.Expr):
        return (node.value,)
    if isinstance(node, ast.BoolOp):
        return node.values[:-1]  # the last one is the result
    test: ast.expr | None = getattr(node, "test", None)  # of if, while, assert
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        test = node.operand
    if isinstance(test, ast.BoolOp):
        return test.values[-1:]
    return () if test is None else (test,)


def _returned(node: ast.AST) -> Iterator[ast.expr]:
    """What a function returns itself, without the functions in it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return) and child.value is not None:
            yield child.value
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _returned(child)


def _is_to_be_awaited(value: object) -> bool:
    """Whether its call is a coroutine of this library."""
    if type(value) is not MethodType:
        return is_guard(value)
    return _is_a(value.__self__, Serving) and iscoroutinefunction(unwrap(value))


def _value_of(name: ast.expr, function: FunctionType, owner: object) -> Any:
    """What a name or attribute is, None if only running the function would tell."""
    if isinstance(name, ast.Attribute):
        return _attribute_of(_value_of(name.value, function, owner), name.attr)
    return _variable(name.id, function, owner) if isinstance(name, ast.Name) else None


def _variable(name: str, function: FunctionType, owner: object) -> Any:
    """The value of a variable; None if only running the function would tell."""
    code = function.__code__
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    if name in cells:
        with suppress(ValueError):  # it has no value yet
            return cells[name].cell_contents
        return None
    if name in code.co_varnames[:1]:
        return owner  # of a method
    is_local = name in (*code.co_varnames, *code.co_cellvars)
    return None if is_local else function.__globals__.get(name)


def _attribute_of(value: object, name: str) -> Any:
    """An attribute; None if there is none, or if reading it might do something."""
    with suppress(Exception):  # a property may raise
        return getattr(value, name) if _is_a(value, Serving) else getattr_static(value, name)
    return None


def _nodes(function: Any) -> Iterator[ast.AST]:
    """The syntax of a function; nothing if there is no source, or half a line of it."""
    with suppress(Exception):  # such as SyntaxError, and TokenError of a file that has changed
        yield from ast.walk(ast.parse(dedent(getsource(function))))


class _Opened(NamedTuple):
    """The function that runs for a call, None without code in Python.

    `given` is what it is bound to: arguments, an object. `wrappers` are the functions of its
    decorators, which get its result.
    """

    function: FunctionType | None
    given: list[object]
    wrappers: list[Any]


def _opened(call: Any) -> _Opened:
    given: list[object] = []
    wrappers: list[Any] = []
    while isinstance(call, partial):
        given += [*call.args, *call.keywords.values()]
        call = call.func
    inner = unwrap(call, stop=wrappers.append)
    # A call of a class makes an object; a call of an object is a method of its type.
    if not (isclass(inner) or type(inner) in (FunctionType, MethodType)):
        inner = getattr(inner, "__call__", None)  # noqa: B004
    owner = getattr(inner, "__self__", None)
    function = getattr(inner, "__func__", inner)
    is_known = type(function) is FunctionType
    return _Opened(function if is_known else None, [*given, owner], wrappers)


def _loaded(function: FunctionType, owner: object) -> Iterator[tuple[object, str]]:
    """The values that the code of a function loads, each with the next instruction's name."""
    value = None
    for step in get_instructions(function):
        if value is not None:
            yield value, step.opname
        if step.opname in _READS:
            value = _attribute_of(value, step.argval)
        elif step.opname.startswith(_VARIABLES) and isinstance(step.argval, str):
            value = _variable(step.argval, function, owner)
        else:
            value = None
