"""Wrong use of guards, dependencies and callbacks, named where it happens."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from functools import wraps
from inspect import CORO_CREATED, getcoroutinestate
from types import CodeType, CoroutineType, NoneType
from typing import (
    Annotated,
    Any,
    Final,
    NoReturn,
    ParamSpec,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
)

from pydantic import GetCoreSchemaHandler
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse
from starlette.types import Receive, Scope, Send

from fastapi_oidc.concurrency import is_in_event_loop
from fastapi_oidc.errors import misconfigured
from fastapi_oidc.web.headers import UNREFERRED

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Call: TypeAlias = Coroutine[Any, Any, Any]
Use: TypeAlias = "Call | Dependency | ToProvider | Block"
"""What a request has begun to use."""

NAMESAKE: Final = (
    "this is not the OIDC instance of the middleware, and both are named {!r}: use one instance "
    "for both, or give each a middleware and a `name` of its own"
)

SCOPE_KEY = "fastapi_oidc"


class Dependency:
    """Base of what FastAPI calls for `Depends(...)`. It has no value of its own, and says so."""

    name = "a guard"
    """What the application calls it."""
    refuses = True
    """Whether a request without a session or token is refused."""
    returns: type
    """The class of its result."""

    def __bool__(self) -> bool:
        """True for FastAPI, which asserts it. Raises TypeError for `if`, `not`, `and` and `or`."""
        # Python asks the same for `and`: Depends(a and b) would check b alone. The caller tells.
        if not str(sys._getframe(1).f_globals.get("__name__")).startswith("fastapi."):
            raise TypeError(self._how_to_use("is neither true nor false"))
        return True

    def __or__(self, other: object) -> NoReturn:
        """Raises TypeError: operators would drop one of two guards."""
        raise TypeError(self._how_to_use("cannot be joined with an operator"))

    __and__ = __ror__ = __rand__ = __or__

    def __getattr__(self, name: str) -> NoReturn:
        """Raises AttributeError, for example with `dependencies=[guard]`."""
        # Python and FastAPI ask for dunder names, one of them at every request.
        text = name if name.startswith("__") else self._how_to_use(f"has no {name!r}")
        raise AttributeError(text, name=name, obj=self)

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any, /) -> NoReturn:
        """Raises TypeError for Annotated[..., guard], which FastAPI would read from the request."""
        raise TypeError(self._how_to_use("is in Annotated without Depends"))

    def _how_to_use(self, fault: str) -> str:
        return (
            f"{self.name} {fault}: it is a dependency. Write Depends(...) around it, or `await` "
            "its call with the request. Several guards are several Depends(...); for one role of "
            "several write oidc.require(lambda user: ...)"
        )


class ToProvider(RedirectResponse):
    """The response of `oidc.login` or `oidc.logout`. Dropped, it would leave the endpoint open that
    began a login, or the user signed in at the provider.

    FastAPI drops it if a dependency returns it. An application may send it, or read its location.
    """

    def __init__(self, location: str, name: str, remedy: str) -> None:
        super().__init__(location, 302, headers=UNREFERRED)
        self.name, self.remedy, self.is_used = name, remedy, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        self.is_used = True
        await super().__call__(scope, receive, send)

    @property
    def headers(self) -> MutableHeaders:
        """The headers."""
        self.is_used = True
        return super().headers


class Block(AbstractAsyncContextManager[None]):
    """What a method does within a block of `async with`. `when_lost` is called if none begins."""

    is_used = False

    def __init__(
        self,
        name: str,
        block: AbstractAsyncContextManager[None],
        when_lost: Callable[[Block], None],
    ) -> None:
        self.name, self._block, self._when_lost = name, block, when_lost

    @property
    def fault(self) -> str:
        """What is wrong with a call that is no block."""
        return f"{self.name} was called without `async with`. It has done nothing"

    async def __aenter__(self) -> None:
        """Begin the block."""
        self.is_used = True
        await self._block.__aenter__()

    async def __aexit__(self, *error: Any) -> bool | None:
        """End the block."""
        return await self._block.__aexit__(*error)

    def __del__(self) -> None:
        if not self.is_used:
            self._when_lost(self)


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
        raise misconfigured(
            f"Depends({name}) guards nothing: {name} makes the guard. "
            f"Write Depends({self._example})"
        )


_DEFINING: Final = frozenset(
    ("APIRouter", "FastAPI", "add_api_route", "dependency_overrides", "include_router")
)
_GUARD: Final = (
    "A guard is a dependency: Depends(guard), without a call, or `await guard(request)`, without a "
    "keyword"
)


def awaited(
    function: Callable[Parameters, Coroutine[Any, Any, Result]],
) -> Callable[Parameters, Coroutine[Any, Any, Result]]:
    """The method `function`, whose call without `await` refuses the response of the request.

    A call without a request or websocket raises TypeError.
    """

    @wraps(function)
    def call(*args: Parameters.args, **named: Parameters.kwargs) -> Coroutine[Any, Any, Result]:
        connection = args[1] if len(args) > 1 else named.get("connection")
        # The first comparison is faster: HTTPConnection is an abstract base class.
        if type(connection) is Request or isinstance(connection, HTTPConnection):
            made = function(*args, **named)
            if (context := connection.scope.get(SCOPE_KEY)) is not None:
                context.note(made, args[0])
            return made
        name = name_with(function, args[0])
        named_types = [f"{name}={type(each).__name__}" for name, each in named.items()]
        given = ", ".join([type(each).__name__ for each in args[1:]] + named_types)
        raise TypeError(
            f"{name} takes a request or websocket, not {given or 'none'}. "
            + (_GUARD if isinstance(args[0], Dependency) else f"Write `await {name}(request)`")
        )

    return call


def defines_routes(code: CodeType) -> bool:
    """Whether it makes routes or overrides guards, which names guards without calling them.

    So do modules and classes, whose code is that of no function.
    """
    is_function = code.co_flags & inspect.CO_OPTIMIZED
    return not is_function or not _DEFINING.isdisjoint(code.co_names)


def refuses(call: object) -> bool:
    """Whether it is a guard, which refuses requests without a session or token."""
    return isinstance(call, Dependency) and call.refuses


def is_lost(use: Use) -> bool:
    """Whether nobody has awaited the call so far, called the dependency, or used the redirect."""
    if isinstance(use, CoroutineType):
        return use.cr_frame is not None and getcoroutinestate(use) == CORO_CREATED
    if isinstance(use, ToProvider | Block):
        return not use.is_used
    return isinstance(use, Dependency) or getcoroutinestate(use) == CORO_CREATED


def faults_of(uses: Iterable[Use]) -> list[str]:
    """What is wrong with the uses that are lost."""
    lost = [use for use in uses if is_lost(use)]
    tasks = asyncio.all_tasks() if lost and is_in_event_loop() else ()
    begun = {id(task.get_coro()) for task in tasks}  # a task that has not had its first turn
    return [_fault_of(use) for use in lost if id(use) not in begun]


def _fault_of(lost: Use) -> str:
    if isinstance(lost, Dependency):
        return (
            f"{name_of(lost)} was read in this request and not called: write Depends(...). "
            "It has checked nothing"
        )
    if isinstance(lost, ToProvider):
        return (
            f"the response of {lost.name} was dropped: return it from the endpoint. FastAPI "
            f"ignores what a dependency returns: {lost.remedy}"
        )
    if isinstance(lost, Block):
        return lost.fault
    name = name_of(lost)
    lost.close()  # so Python does not warn of it as well
    return f"{name} was called without await. It has done and checked nothing"


def require_kind(argument: str, given: object, *kinds: type) -> None:
    """Raise TypeError unless `given` is of one of `kinds`; the error never has the value."""
    if not isinstance(given, kinds):
        wanted = " or ".join("None" if each is NoneType else each.__name__ for each in kinds)
        kind = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
        raise TypeError(f"{argument} must be {wanted}, not {kind.partition('[')[0]}")


def name_of(function: Any) -> str:
    """What the developer calls a method, the call of one, a dependency, a redirect or a block."""
    if isinstance(function, Dependency | ToProvider | Block):
        return function.name
    owner = getattr(function, "__self__", None)
    if (frame := getattr(function, "cr_frame", None)) is not None:
        owner = frame.f_locals.get("self")
    return name_with(function, owner)


def name_with(function: Any, owner: object) -> str:
    """What the developer calls a method of `owner`."""
    if isinstance(owner, Dependency):
        return owner.name
    noun = getattr(owner, "noun", None)
    return str(function.__qualname__ if noun is None else f"{noun}.{function.__name__}")


def require_takes(name: str, callback: Any, *given: type) -> None:
    """Raise ConfigurationError for a callback that cannot be called with values of these types.

    An annotation that is no class, or that nothing can read yet, is not compared, nor are those of
    a function that `functools.wraps` has copied to another one with parameters of its own.
    """
    taken = None if callback is None else _signature_of(callback)
    if taken is None:
        return
    with suppress(TypeError):
        bound = taken.bind(*given).arguments.items()
        compared = () if hasattr(callback, "__wrapped__") else bound
        if not any(are_unrelated(taken.parameters[key].annotation, kind) for key, kind in compared):
            return
    kinds = ", ".join(each.__name__ for each in given)
    raise misconfigured(f"{name} is called with ({kinds}), and takes {taken}")


def annotations_of(function: Any) -> dict[str, Any]:
    """The annotations of a function's parameters; as types, where they can be evaluated."""
    taken = _signature_of(inspect.unwrap(function))
    kinds = (
        {} if taken is None else {name: each.annotation for name, each in taken.parameters.items()}
    )
    return {
        name: get_args(each)[0] if get_origin(each) is Annotated else each
        for name, each in kinds.items()
    }


def _signature_of(function: Any) -> inspect.Signature | None:
    """Its signature, with its annotations as types where these can be read.

    That of a decorated function is its decorator's, which may pass on other arguments.
    """
    for is_evaluated in (True, False):
        with suppress(Exception):  # an annotation may be any expression
            return inspect.signature(function, follow_wrapped=False, eval_str=is_evaluated)
    return None


def are_unrelated(annotation: Any, given: Any) -> bool:
    """Whether both are classes and neither is a kind of the other."""
    kind: Any = get_origin(annotation) or annotation
    if getattr(kind, "__module__", None) in ("inspect", "types", "typing"):
        return False  # nothing, Any, Annotated or a union
    with suppress(TypeError):  # for what is no class, and for protocols
        return not issubclass(kind, given) and not issubclass(given, kind)
    return False
