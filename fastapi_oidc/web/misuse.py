"""Wrong use of guards, dependencies and callbacks, named where it happens."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from types import NoneType
from typing import Any, Final, Generic, NoReturn, ParamSpec, TypeAlias, TypeVar

from fastapi.params import Depends
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse
from starlette.types import Receive, Scope, Send

from fastapi_oidc.errors import OIDCError, Refused, misconfigured
from fastapi_oidc.web.pages import UNREFERRED

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Use: TypeAlias = "Call[Any] | ToProvider | Dependency"
"""What a request has begun to use: it is lost until it is awaited or sent."""

SCOPE_KEY = "fastapi_oidc"


class Dependency:
    """Base of what FastAPI calls for `Depends(...)`. It has no value of its own, and says so."""

    name = "a guard"
    """What the application calls it."""
    refuses = True
    """Whether a request without a session or token is refused."""
    returns: type
    """The class of its result."""
    is_used = False
    """A request that has made it needs to call it."""

    @property
    def fault(self) -> str:
        """What is wrong with it while it is lost."""
        return f"{self.name} was made within a request, and dropped. It has checked nothing"

    def __bool__(self) -> bool:
        """True for FastAPI, which asserts it. Raises TypeError for `if`, `not`, `and` and `or`."""
        # Python asks the same for `and`: Depends(a and b) would check b alone. The caller tells.
        if not str(sys._getframe(1).f_globals.get("__name__")).startswith("fastapi."):
            raise TypeError(self._how_to_use("is neither true nor false"))
        return True

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

    def __init__(self, location: str, name: str) -> None:
        super().__init__(location, 302, headers=UNREFERRED)
        self.is_used = False
        self.fault = (
            f"the response of {name} was dropped: return it from the endpoint, because FastAPI "
            "ignores what a dependency returns. The browser was not sent to the provider"
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        self.is_used = True
        await super().__call__(scope, receive, send)

    @property
    def headers(self) -> MutableHeaders:
        """The headers."""
        self.is_used = True
        return super().headers


class Call(Coroutine[Any, Any, Result], Generic[Result]):
    """A call of a guard, or of a method of `OIDC`. It is lost until it is awaited."""

    is_used = False

    def __init__(self, name: str, begun: Coroutine[Any, Any, Result]) -> None:
        self.name, self._begun = name, begun

    @property
    def fault(self) -> str:
        """What is wrong with it while it is lost."""
        return f"{self.name} was called without await. It has done and checked nothing"

    def __bool__(self) -> NoReturn:
        """Raises ConfigurationError: `if guard(request):` would be true for everybody."""
        self._begun.close()
        raise misconfigured(self.fault)

    def __await__(self) -> Generator[Any, Any, Result]:
        """Run the call."""
        self.is_used = True
        return self._begun.__await__()

    def send(self, value: Any, /) -> Any:
        """Run the call in a task."""
        self.is_used = True
        return self._begun.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error in the call, also in one that a task has not begun."""
        self.is_used = True
        return self._begun.throw(*error)

    def close(self) -> None:
        """End the call."""
        self.is_used = True
        self._begun.close()


class Awaited:
    """Base of what applications make of this library: its coroutines are lost until awaited."""


class Argument(Refused):
    """Marks a parameter that the application gives, with an `example` of the whole call.

    FastAPI would read the parameter from the request if the call had no parentheses.
    """

    def __init__(self, example: str) -> None:
        name = example.partition("(")[0]
        super().__init__(
            f"Depends({name}) guards nothing: {name} makes the guard. Write Depends({example})"
        )


_GUARD: Final = (
    "A guard is a dependency: Depends(guard), without a call, or `await guard(request)`, without a "
    "keyword"
)


def awaited(
    function: Callable[Parameters, Coroutine[Any, Any, Result]],
) -> Callable[Parameters, Call[Result]]:
    """The method `function`, whose call without `await` refuses the response of the request.

    A call without a request or websocket raises TypeError.
    """

    async def owned(
        owner: Any, scope: Scope, *args: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        """The result; an error gets the name of the instance, whose middleware answers."""
        try:
            return await function(*args, **named)
        except OIDCError as error:
            instance = owner.engine or scope.get(SCOPE_KEY)  # the only one
            if error.instance is None and instance is not None:
                error.instance = instance.name
            raise

    @wraps(function)
    def call(*args: Parameters.args, **named: Parameters.kwargs) -> Call[Result]:
        name = name_with(function, args[0])
        connection = args[1] if len(args) > 1 else named.get("connection")
        # The first comparison is faster: HTTPConnection is an abstract base class.
        if type(connection) is Request or isinstance(connection, HTTPConnection):
            made = Call(name, owned(args[0], connection.scope, *args, **named))
            if (context := connection.scope.get(SCOPE_KEY)) is not None:
                context.note(made, instead_of=args[0])
            return made
        raise TypeError(
            f"{name} takes a request or websocket first, not {type(connection).__name__}. "
            + (_GUARD if isinstance(args[0], Dependency) else f"Write `await {name}(request)`")
        )

    return call


def refuses(call: Any) -> bool:
    """Whether it is a guard, which refuses requests without a session or token."""
    return is_a(call, Dependency) and bool(call.refuses)


def require_kind(argument: str, given: object, *kinds: type) -> None:
    """Raise TypeError unless `given` is of one of `kinds`; the error never has the value."""
    if not isinstance(given, kinds):
        wanted = " or ".join("None" if each is NoneType else each.__name__ for each in kinds)
        kind = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
        raise TypeError(f"{argument} must be {wanted}, not {kind.partition('[')[0]}")


def require_takes(name: str, callback: Any, *given: type) -> None:
    """Raise ConfigurationError for a callback that cannot be called with values of these types."""
    if callback is None:
        return
    if not callable(callback):
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
    if any(is_a(each.default, Depends) for each in left):
        raise misconfigured(f"{name} has Depends(...): this library calls it, and injects nothing")


def is_a(value: object, *kinds: type) -> bool:
    """Like `isinstance`, without `__class__`: a proxy would load what it stands for, or raise."""
    return issubclass(type(value), kinds)


def name_with(function: Any, owner: object) -> str:
    """What the developer calls a method of `owner`."""
    if isinstance(owner, Dependency):
        return owner.name
    noun = getattr(owner, "noun", None)
    return str(function.__qualname__ if noun is None else f"{noun}.{function.__name__}")
