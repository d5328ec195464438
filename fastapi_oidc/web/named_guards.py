"""Finds a guard that a function names and never calls, in its code and without running it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dis import get_instructions
from functools import partial
from inspect import isclass, unwrap
from itertools import pairwise
from types import FunctionType, MethodType
from typing import Any, Final

from fastapi_oidc.web.misuse import Dependency

_ENDS: Final = ("RETURN_VALUE", "YIELD_VALUE", "POP_TOP")


def uncalled_guard(call: Callable[..., Any], *, has_request: bool) -> Dependency | None:
    """A guard that `call` names and cannot call; None if there is none.

    Without a request nothing can call a guard. With one, a guard that is returned is not called.
    """
    if isinstance(call, partial):
        given = (*call.args, *call.keywords.values())
        guards = [each for each in given if isinstance(each, Dependency) and not has_request]
        return guards[0] if guards else uncalled_guard(call.func, has_request=has_request)
    function, owner = _function_of(call)
    if function is None:
        return None
    named = {name: each for name, each in _named(function, owner) if isinstance(each, Dependency)}
    if named and has_request:
        named = {name: named[name] for name in _returned(function) if name in named}
    return next(iter(named.values()), None)


def _function_of(call: Any) -> tuple[FunctionType | None, object]:
    """The function that a dependency runs, and the object that it is a method of."""
    if isclass(call):
        call = call.__init__
    call = unwrap(call)
    if not isinstance(call, FunctionType | MethodType):
        call = getattr(call, "__call__", None)  # noqa: B004 - a method of its type
    if isinstance(call, MethodType):
        return _function_of(call.__func__)[0], call.__self__
    return (call if isinstance(call, FunctionType) else None), None


def _named(function: FunctionType, owner: object) -> Iterator[tuple[str, object]]:
    """The names in the function's code with their values: variables, and their attributes."""
    code = function.__code__
    found = {name: function.__globals__.get(name) for name in code.co_names}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it is assigned later
            found[name] = cell.cell_contents
    yield from found.items()
    for value in (owner, type(owner), *found.values()):
        with suppress(AttributeError):
            members = object.__getattribute__(value, "__dict__")  # runs no code of the value
            yield from ((name, members[name]) for name in code.co_names if name in members)


def _returned(function: FunctionType) -> list[Any]:
    """The names whose values are returned, yielded or dropped as they are."""
    steps = pairwise(get_instructions(function))
    return [load.argval for load, end in steps if end.opname in _ENDS]
