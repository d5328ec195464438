"""Finds what the code of an endpoint or callback drops, a coroutine or guard, before it acts.

The response of such an endpoint is refused anyway, but what it has done stays done. A callback that
tests a coroutine would take everybody for an administrator.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator, Mapping
from contextlib import suppress
from textwrap import dedent
from types import CodeType, FunctionType, MethodType
from typing import Any, TypeAlias, cast, get_args

from fastapi.params import Depends

from fastapi_oidc.errors import misconfigured
from fastapi_oidc.web.misuse import Awaited, Dependency

Names: TypeAlias = Mapping[str, Any]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def unawaited_call(call: Any, *, is_returned: bool) -> str | None:
    """The source of a call of this library whose result `call` drops, None if there is none.

    With `is_returned` a returned result is dropped too, as FastAPI does with a dependency that has
    no name. The decorator of a function may await what the function returns.
    """
    function = inspect.unwrap(call)
    names = _names_of(function)
    for value in _dropped(_syntax_of(function), is_returned=is_returned and function is call):
        if isinstance(value, ast.Call) and _is_to_be_used(_value_of(value.func, names)):
            return ast.unparse(value)
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
        kinds = ", ".join(each.__name__ for each in given)
        raise misconfigured(f"{name} is called with ({kinds}), and takes {taken}") from None
    if source := _tested_call(callback, named):
        raise misconfigured(
            f"{name} tests `{source}`, a coroutine, which is always true: write async and await"
        )


def _tested_call(function: Any, given: Names) -> str | None:
    """The source of a call of an async function whose coroutine `function` tests: always true.

    `given` are the classes of what `function` is called with.
    """
    names = {**_names_of(function), **given}
    for value in _tested(_syntax_of(function)):
        called = _value_of(value.func, names) if isinstance(value, ast.Call) else None
        if _is_a(called, FunctionType, MethodType) and inspect.iscoroutinefunction(called):
            return ast.unparse(value)
    return None


def _tested(function: ast.AST) -> Iterator[ast.expr]:
    """The expressions in a function that are asked whether they are true."""
    for node in ast.walk(function):
        match node:
            case ast.BoolOp():
                yield from map(_last, node.values[:-1])
            case ast.If(test=each) | ast.IfExp(test=each) | ast.UnaryOp(operand=each):
                yield _last(each)
            case ast.Call(ast.Name("any" | "all" | "bool"), [ast.GeneratorExp(each) | each]):
                yield _last(each)


def _last(value: ast.expr) -> ast.expr:
    return _last(value.values[-1]) if isinstance(value, ast.BoolOp) else value


def _is_a(value: object, *kinds: type) -> bool:
    """Like `isinstance`, without `__class__`: a proxy would load what it stands for, or raise."""
    return issubclass(type(value), kinds)


def _names_of(function: Any) -> Names:
    """The variables of other scopes that the function's code has; nothing for another object."""
    # It is no function, or a variable has no value yet.
    with suppress(AttributeError, TypeError, ValueError):
        names = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
        own = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
        return {name: value for name, value in names.items() if name not in own}
    return {}


def _syntax_of(function: Any) -> ast.AST:
    """The definition of a function, the expression of a lambda; an empty one without source."""
    with suppress(Exception):  # such as TokenError, if the file has changed
        if function.__name__ == "<lambda>":
            return _expression_of(function.__code__)
        (defined,) = ast.parse(dedent(inspect.getsource(function))).body
        return defined
    return ast.Pass()


def _expression_of(code: CodeType) -> ast.AST:
    """The expression of a lambda, from the first to the last place of its instructions."""
    places: list[Any] = [each for each in code.co_positions() if each[-1]]
    first, start = min(each[::2] for each in places)
    last, end = max(each[1::2] for each in places)
    lines = [each.encode() for each in linecache.getlines(code.co_filename)[first - 1 : last]]
    return ast.parse(b"(%b)" % b"".join(lines)[start : end - len(lines[-1]) or None], mode="eval")


def _dropped(node: ast.AST, *, is_returned: bool) -> Iterator[ast.expr | None]:
    """The expressions whose values a function drops itself, without the functions in it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) or (is_returned and isinstance(child, ast.Return)):
            yield child.value
        elif not isinstance(child, _FUNCTIONS):
            yield from _dropped(child, is_returned=is_returned)


def _value_of(name: ast.expr, names: Names) -> Any:
    """What a name or an attribute of ours is; None if only running the code would tell."""
    if isinstance(name, ast.Name):
        return names.get(name.id)
    if isinstance(name, ast.Attribute):
        owner = _value_of(name.value, names)
        if _is_a(owner, Awaited):
            with suppress(Exception):  # a property may need a request
                return getattr(owner, name.attr)
            return None
        return inspect.getattr_static(owner, name.attr, None)
    return None


def _is_to_be_used(value: Any) -> bool:
    """Whether its call is a coroutine of this library, or a guard."""
    if _is_a(value, MethodType) and _is_a(value.__self__, Awaited):
        makes_a_guard = value.__name__.startswith("require")
        return makes_a_guard or inspect.iscoroutinefunction(inspect.unwrap(value))
    return _is_a(value, Dependency)


def stale_read(call: Any) -> str | None:
    """What `call` reads of a session that it has, after a refresh whose result it drops."""
    function = inspect.unwrap(call)
    code: Any = getattr(function, "__code__", None)
    if not _is_a(code, CodeType) or "refresh" not in code.co_names:
        return None
    syntax, names = _syntax_of(function), _names_of(function)
    given = {each.arg for each in ast.walk(syntax) if isinstance(each, ast.arg)}
    for value in _after_refresh(syntax, names):
        match value:
            case ast.Name(name, ast.Store()):
                given.discard(name)
            case ast.Attribute(ast.Name(name), "identity" | "tokens" | "claims") if name in given:
                return ast.unparse(value)
    return None


def _after_refresh(syntax: ast.AST, names: Names) -> Iterator[ast.AST]:
    """What surely runs after a refresh of a session: the statements that follow in its block."""
    for block in (getattr(each, "body", ()) for each in ast.walk(syntax)):
        is_later = False
        for statement in block if isinstance(block, list) else ():
            yield from ast.walk(statement) if is_later else ()
            match statement:
                case ast.Expr(ast.Await(ast.Call(called))):
                    value = _value_of(called, names)
                    is_ours = _is_a(value, MethodType) and _is_a(value.__self__, Awaited)
                    is_later = is_later or (is_ours and value.__name__ == "refresh")


def unread_guards(call: Any) -> Iterator[Dependency]:
    """The guards that `call` declares where FastAPI reads none.

    Of a class FastAPI reads `__init__`, and of a decorated function the one that is decorated.
    """
    for each in _declared(call):
        if isinstance(each, Depends) and _is_a(each.dependency, Dependency):
            yield cast("Dependency", each.dependency)


def _declared(call: Any) -> Iterator[object]:
    if inspect.isclass(call):
        yield from vars(call).values()
        for annotation in vars(call).get("__annotations__", {}).values():
            yield from get_args(annotation)[1:]
    while hasattr(call, "__wrapped__"):
        yield from getattr(call, "__defaults__", None) or ()
        yield from (getattr(call, "__kwdefaults__", None) or {}).values()
        call = call.__wrapped__
