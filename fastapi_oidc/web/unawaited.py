"""Finds what the code of an endpoint or callback drops, a coroutine or guard, before it acts.

The response of such an endpoint is refused anyway, but what it has done stays done. A callback that
tests a coroutine would take everybody for an administrator.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from textwrap import dedent
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias, cast, get_args, get_type_hints

from fastapi.params import Depends

from fastapi_oidc.errors import misconfigured
from fastapi_oidc.web.misuse import Awaited, Dependency

Names: TypeAlias = Mapping[str, Any]

_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp),
)
"""What has variables of its own."""


def unawaited_call(call: Any, *, is_returned: bool) -> str | None:
    """The source of a call of this library whose result `call` drops, or of a guard, or None.

    With `is_returned` a returned result is dropped too, as FastAPI does with a dependency that has
    no name. The decorator of a function may await what the function returns.
    """
    function = inspect.unwrap(call)
    names = _names_of(function)
    if not any(_is_a(each, Dependency, Awaited) for each in _objects(names)):
        return None
    for value in _dropped(_syntax_of(function), is_returned=is_returned and function is call):
        named = value if isinstance(value, ast.Name | ast.Attribute) else None
        if isinstance(value, ast.Call) and _is_to_be_used(_value_of(value.func, names)):
            return ast.unparse(value)
        if named is not None and _is_a(_value_of(named, names), Dependency):
            return ast.unparse(named)
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
    left = [each for name, each in taken.parameters.items() if name not in named]
    if any(_is_a(each.default, Depends) for each in left):
        raise misconfigured(f"{name} has Depends(...): this library calls it, and injects nothing")
    if source := _tested_call(callback, named):
        raise misconfigured(
            f"{name} tests `{source}`, a coroutine, which is always true: write async and await"
        )


def _tested_call(function: Any, given: Names) -> str | None:
    """The source of a call of an async function whose coroutine `function` tests: always true.

    `given` are the classes of what `function` is called with.
    """
    if not _is_a(function, FunctionType, MethodType) or hasattr(function, "__wrapped__"):
        return None
    nodes = [*_own_nodes(_syntax_of(function))]
    stored = {each.id for each in nodes if isinstance(each, ast.Name) and not _is_read(each)}
    kinds = {name: kind for name, kind in given.items() if name not in stored}
    names = {**_names_of(function), **kinds}
    for value in _tested(nodes):
        called = _value_of(value.func, names) if isinstance(value, ast.Call) else None
        if _is_a(called, FunctionType, MethodType) and inspect.iscoroutinefunction(called):
            return ast.unparse(value)
    return None


def _tested(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """The expressions that are asked whether they are true."""
    for node in nodes:
        match node:
            case ast.BoolOp():
                yield from map(_last, node.values[:-1])
            case ast.If(test=each) | ast.IfExp(test=each) | ast.UnaryOp(operand=each):
                yield _last(each)
            case ast.Call(ast.Name("bool"), [each]):
                yield _last(each)


def _last(value: ast.expr) -> ast.expr:
    return _last(value.values[-1]) if isinstance(value, ast.BoolOp) else value


def _is_read(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _is_a(value: object, *kinds: type) -> bool:
    """Like `isinstance`, without `__class__`: a proxy would load what it stands for, or raise."""
    return issubclass(type(value), kinds)


def _names_of(function: Any) -> Names:
    """The variables of other scopes that the function's code has; nothing for another object."""
    with suppress(TypeError, ValueError):  # no function, or a variable that has no value yet
        found = inspect.getclosurevars(function)
        own = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
        names = {**found.globals, **found.nonlocals}
        return {name: value for name, value in names.items() if name not in own}
    return {}


def _objects(names: Names) -> Iterator[object]:
    """The values of the variables, and what is in the modules among them."""
    for value in names.values():
        yield value
        if _is_a(value, ModuleType):
            yield from vars(value).values()


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


def _own_nodes(syntax: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a function or expression in order, without those of the scopes in it."""
    rest = [*ast.iter_child_nodes(syntax)]
    while rest:
        yield (node := rest.pop(0))
        if not isinstance(node, _SCOPES):
            rest[:0] = ast.iter_child_nodes(node)


def _dropped(syntax: ast.AST, *, is_returned: bool) -> Iterator[ast.expr | None]:
    """The expressions whose values a function drops itself."""
    if is_returned and isinstance(syntax, ast.Expression):
        yield syntax.body
    for node in _own_nodes(syntax):
        if isinstance(node, ast.Expr) or (is_returned and isinstance(node, ast.Return)):
            yield node.value


def _value_of(name: ast.expr, names: Names) -> Any:
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
    """The guards that `call` declares where FastAPI reads none.

    Of a class FastAPI reads `__init__` and calls nothing else, and of a decorated function it reads
    the one that is decorated.
    """
    for each in _declared(call):
        if isinstance(each, Depends) and _is_a(each.dependency, Dependency):
            yield cast("Dependency", each.dependency)


def _declared(call: Any) -> Iterator[object]:
    if inspect.isclass(call):
        yield from vars(call).values()
        yield from _in_annotations(call)
        yield from _of_parameters(vars(call).get("__call__"))
    while hasattr(call, "__wrapped__"):
        yield from _of_parameters(call)
        call = call.__wrapped__


def _of_parameters(function: Any) -> Iterator[object]:
    yield from getattr(function, "__defaults__", None) or ()
    yield from (getattr(function, "__kwdefaults__", None) or {}).values()
    yield from _in_annotations(function)


def _in_annotations(owner: Any) -> Iterator[object]:
    with suppress(Exception):  # one that nothing can evaluate has an error of its own
        for annotation in get_type_hints(owner, include_extras=True).values():
            yield from get_args(annotation)[1:]
