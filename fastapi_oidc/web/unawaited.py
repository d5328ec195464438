"""Finds what the code of an endpoint drops, a coroutine or guard, before it acts.

The response of such an endpoint is refused anyway, but what it has done stays done.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from textwrap import dedent
from types import MethodType, ModuleType
from typing import Any, cast, get_args

from fastapi.params import Depends

from fastapi_oidc.errors import misconfigured
from fastapi_oidc.web.misuse import Awaited, Dependency


def unawaited_call(call: Any) -> str | None:
    """The source of a statement that calls a guard or coroutine of this library, or None.

    What `call` returns may be awaited. If FastAPI drops it, the request is refused.
    """
    function = inspect.unwrap(call)
    names = _names_of(function)
    if not any(_is_a(each, Dependency, Awaited, ModuleType) for each in names.values()):
        return None
    statements = [each for each in _own_nodes(_syntax_of(function)) if isinstance(each, ast.Expr)]
    for called in (each.value for each in statements):
        if isinstance(called, ast.Call) and _is_to_be_used(_value_of(called.func, names)):
            return ast.unparse(called)
    return None


def require_takes(name: str, callback: Any, *given: type) -> None:
    """Raise ConfigurationError for a callback that cannot be called with values of these types."""
    if callback is not None and not callable(callback):
        raise misconfigured(f"{name} is a function, not {type(callback).__name__}")
    try:
        taken = inspect.signature(callback, follow_wrapped=False)
    except (TypeError, ValueError):  # there is none, or it is written in C
        return
    try:
        named = taken.bind(*given).arguments
    except TypeError:
        kinds = ", ".join(str(getattr(each, "__name__", each)) for each in given)
        raise misconfigured(f"{name} is called with ({kinds}), and takes {taken}") from None
    left = [each for name, each in taken.parameters.items() if name not in named]
    if any(_is_a(each.default, Depends) for each in left):
        raise misconfigured(f"{name} has Depends(...): this library calls it, and injects nothing")


def _is_a(value: object, *kinds: type) -> bool:
    """Like `isinstance`, without `__class__`: a proxy would load what it stands for, or raise."""
    return issubclass(type(value), kinds)


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
            if _is_a(owner, Awaited):
                return getattr(owner, name.attr)
            return inspect.getattr_static(owner, name.attr, None)
    return None


def _is_to_be_used(value: Any) -> bool:
    """Whether its call is a coroutine of this library, or a guard."""
    if _is_a(value, MethodType) and _is_a(value.__self__, Awaited):
        makes_a_guard = value.__name__.startswith("require")
        return makes_a_guard or inspect.iscoroutinefunction(inspect.unwrap(value))
    return _is_a(value, Dependency)


def unread_guards(call: Any) -> Iterator[Dependency]:
    """The guards among parameters that FastAPI does not read.

    Of a class it reads `__init__`, and of a decorated function the one that is decorated.
    """
    unread = [vars(call).get("__call__")] if inspect.isclass(call) else []
    while hasattr(call, "__wrapped__"):
        unread.append(call)
        call = call.__wrapped__
    for each in filter(None, unread):
        for declared in _declared(each):
            if isinstance(declared, Depends) and _is_a(declared.dependency, Dependency):
                yield cast("Dependency", declared.dependency)


def _declared(function: Any) -> Iterator[object]:
    """The default values of the parameters, and what is in their annotations."""
    with suppress(Exception):  # an annotation that nothing can evaluate has an error of its own
        signature = inspect.signature(function, follow_wrapped=False, eval_str=True)
        for parameter in signature.parameters.values():
            yield parameter.default
            yield from get_args(parameter.annotation)[1:]
