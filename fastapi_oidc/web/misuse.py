"""Refuses calls that would leave an endpoint open: without parentheses, or without `await`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from inspect import CORO_CREATED, getcoroutinestate
from types import NoneType
from typing import Any, NoReturn, ParamSpec, TypeAlias, TypeVar

from pydantic import GetCoreSchemaHandler
from starlette.requests import HTTPConnection

from fastapi_oidc.errors import Code, ConfigurationError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Call: TypeAlias = Coroutine[Any, Any, Any]

SCOPE_KEY = "fastapi_oidc"


class Argument:
    """Marks a parameter that the application gives, with an `example` of the whole call.

    FastAPI would read the parameter from the request if the call had no parentheses. Then the route
    raises ConfigurationError (configuration.invalid) when it is defined.
    """

    def __init__(self, example: str) -> None:
        self._example = example

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler, /
    ) -> NoReturn:
        """Raises ConfigurationError: FastAPI asks how to read the parameter."""
        name = self._example.partition("(")[0]
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            f"Depends({name}) guards nothing: {name} makes the guard. "
            f"Write Depends({self._example})",
        )


def awaited(
    function: Callable[Parameters, Coroutine[Any, Any, Result]],
) -> Callable[Parameters, Coroutine[Any, Any, Result]]:
    """`function`, whose call without `await` refuses the response of the request.

    A call without a request or websocket raises TypeError.
    """

    @wraps(function)
    def call(*args: Parameters.args, **named: Parameters.kwargs) -> Coroutine[Any, Any, Result]:
        for given in (*args, *named.values()):
            if isinstance(given, HTTPConnection):
                made = function(*args, **named)
                if (contexts := given.scope.get(SCOPE_KEY)) is not None:
                    contexts.note(made)
                return made
        given = ", ".join(type(each).__name__ for each in (*args, *named.values())[1:])
        raise TypeError(
            f"{name_of(function)} takes a request or websocket, not {given or 'none'}. A guard is "
            "a dependency: Depends(guard), without a call"
        )

    return call


def is_lost(call: Call) -> bool:
    """Whether nobody has awaited the call so far."""
    return getcoroutinestate(call) == CORO_CREATED


def require_awaited(calls: Iterable[Call]) -> None:
    """Raise ConfigurationError (configuration.invalid) for a call that nobody has awaited."""
    for lost in filter(is_lost, calls):
        lost.close()  # so Python does not warn of it as well
        explanation = (
            f"{name_of(lost)} was called without await, so it has checked nothing; the response "
            "was not sent"
        )
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)


def require_kind(argument: str, given: object, *kinds: type) -> None:
    """Raise TypeError unless `given` is of one of `kinds`; the error never has the value."""
    if not isinstance(given, kinds):
        wanted = " or ".join("None" if each is NoneType else each.__name__ for each in kinds)
        kind = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
        raise TypeError(f"{argument} must be {wanted}, not {kind.partition('[')[0]}")


def name_of(function: Any) -> str:
    """The name of a function or of its call, for the developer."""
    name: str = function.__qualname__.removesuffix(".__call__")
    return name
