"""Finds what a function names, such as a guard that it never calls, without running it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress
from dis import get_instructions
from functools import partial
from inspect import getattr_static, getclosurevars, getsource, isclass, unwrap
from textwrap import dedent
from types import FunctionType, MethodType
from typing import Any, Final

from starlette.responses import Response

from fastapi_oidc.web.misuse import Dependency

_ENDS: Final = ("RETURN_VALUE", "YIELD_VALUE", "POP_TOP")


def uncalled_guard(call: Callable[..., Any], *, has_request: bool) -> Dependency | None:
    """A guard that `call` names and cannot call; None if there is none.

    Without a request nothing can call a guard. With one, a guard is not called where its name is
    returned, yielded or dropped.
    """
    function, given = _opened(call)
    if not has_request:
        for value in given:
            if isinstance(value, Dependency):
                return value
    named = _named(function, given[-1]) if isinstance(function, FunctionType) else ()
    return next((guard for guard, then in named if not has_request or then in _ENDS), None)


def names_this_library(function: FunctionType) -> bool:
    """Whether the code of `function` names an object of this library, which may guard it."""
    with suppress(ValueError):  # a variable that has no value yet
        named = getclosurevars(function)
        values = (*named.nonlocals.values(), *named.globals.values())
        return any(type(each).__module__.startswith("fastapi_oidc.") for each in values)
    return True


def returned_response(call: Any) -> type[Response] | None:
    """A class of responses that the source of `call` returns; None if there is none."""
    function, _ = _opened(call)
    with suppress(OSError, SyntaxError, TypeError):  # there is no source, or half a line of it
        for node in ast.walk(ast.parse(dedent(getsource(function)))):
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
                made = function.__globals__.get(ast.unparse(node.value.func))
                if isclass(made) and issubclass(made, Response):
                    return made
    return None


def _opened(call: Any) -> tuple[Any, list[object]]:
    """The function that runs for `call`, and what it is bound to: arguments, an object."""
    given: list[object] = []
    while isinstance(call, partial):
        given += [*call.args, *call.keywords.values()]
        call = call.func
    call = unwrap(call)
    if not isinstance(call, FunctionType | MethodType):
        call = getattr(call, "__call__", None)  # noqa: B004 - a method of its type
    return getattr(call, "__func__", call), [*given, getattr(call, "__self__", None)]


def _named(function: FunctionType, owner: object) -> Iterator[tuple[Dependency, str]]:
    """Each guard that the code loads, by a variable or attribute, and what it does then."""
    code, value = function.__code__, None
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    for step in get_instructions(function):
        if isinstance(value, Dependency):
            yield value, step.opname
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            value = getattr_static(value, step.argval, None)
            continue
        value = None
        if step.opname == "LOAD_GLOBAL":
            value = function.__globals__.get(step.argval)
        elif step.opname == "LOAD_DEREF":
            with suppress(KeyError, ValueError):  # a variable of its own, or assigned later
                value = cells[step.argval].cell_contents
        elif step.opname.startswith("LOAD_FAST") and step.arg == 0:
            value = owner
