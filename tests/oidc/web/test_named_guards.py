"""A guard that code names and never calls is refused before the first request."""

import functools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Query, Request, WebSocket

from fastapi_oidc import Code, ConfigurationError, require_auth, require_csrf
from tests.oidc.web.asking import begin
from tests.oidc.web.test_startup import start
from tests.oidc.world import make_world

DEPENDENCIES = SimpleNamespace(admin=require_auth)


class Holder:
    """Keeps a guard as an attribute."""

    def __init__(self) -> None:
        self.guard = require_auth

    def returned(self) -> Any:
        return self.guard

    def __call__(self) -> Any:
        return self.guard


async def awaited_nothing() -> Any:
    return require_csrf


def yielded() -> Iterator[Any]:
    yield require_auth


def sometimes(request: Request) -> Any:
    if "admin" in request.headers:
        return None
    return DEPENDENCIES.admin


def of_another(page: int = Query(1), _session: Any = Depends(require_auth)) -> Any:
    return require_csrf


@functools.cache
def remembered() -> Any:
    guard = require_auth
    return [guard]


def a_local_guard() -> Callable[[], Any]:
    guard = require_auth
    return lambda: guard


def decorated() -> Callable[..., Any]:
    """A decorator that passes on what it gets."""

    def dependency(request: Request) -> Any:
        return require_auth

    @functools.wraps(dependency)
    def call(*args: Any, **named: Any) -> Any:
        return dependency(*args, **named)

    return call


def decorated_with_a_parameter() -> Callable[..., Any]:
    """FastAPI reads the parameters of the function inside."""

    def dependency() -> Any: ...

    @functools.wraps(dependency)
    def call(session: Any = Depends(require_auth)) -> Any:
        return dependency()

    return call


class WithAnAttribute:
    """FastAPI reads the parameters of `__init__` alone."""

    session = Depends(require_auth)


class WithAnAnnotation:
    """As if it were a dataclass."""


WithAnAnnotation.__annotations__ = {"session": Annotated[Any, Depends(require_auth)]}


UNCALLED: list[Callable[..., Any]] = [
    decorated(),
    decorated_with_a_parameter(),
    WithAnAttribute,
    WithAnAnnotation,
    lambda: require_auth,
    lambda request: require_auth,
    lambda: DEPENDENCIES.admin,
    lambda guard=require_auth: guard,
    functools.partial(lambda guard: guard, require_auth),
    functools.partial(lambda guard: guard, guard=require_auth),
    functools.partial(awaited_nothing),
    a_local_guard(),
    Holder(),
    Holder().returned,
    awaited_nothing,
    yielded,
    sometimes,
    of_another,
    remembered,
]


@pytest.mark.parametrize("call", UNCALLED)
async def test_a_dependency_that_returns_a_guard_is_refused(call: Callable[..., Any]) -> None:
    world = make_world()
    world.app.get("/open", dependencies=[Depends(call)])(lambda: "secret")
    with pytest.raises(ConfigurationError, match=r"/open: .*does not call it") as caught:
        await start(world.app)
    assert caught.value.code is Code.CONFIGURATION_INVALID
    assert "Depends(guard)" in caught.value.explanation
    with pytest.raises(ConfigurationError, match="does not call it"):
        await begin(world.app, "/open")


def as_a_sub_dependency(app: FastAPI) -> None:
    def user(guard: Any = Depends(lambda: require_auth)) -> Any:
        return guard

    async def ws(socket: WebSocket, user: Any = Depends(user)) -> None: ...

    app.websocket("/api/open")(ws)


def without_depends(app: FastAPI) -> None:
    async def secret(session: Any = require_auth) -> str:
        return "secret"

    app.get("/api/open")(secret)


def in_an_endpoint(app: FastAPI) -> None:
    async def secret() -> str:
        return f"secret of {require_auth}"

    app.get("/api/open")(secret)


@pytest.mark.parametrize(
    "mount",
    [
        *(as_a_sub_dependency, without_depends, in_an_endpoint),
    ],
)
async def test_a_guard_is_found_wherever_the_route_is(mount: Callable[[FastAPI], None]) -> None:
    world = make_world()
    mount(world.app)
    with pytest.raises(ConfigurationError, match=r"/api/open: .* a require_auth and does not call"):
        await start(world.app)


def test_a_guard_in_annotated_needs_depends() -> None:
    async def secret(session: Any) -> str:
        return "secret"

    secret.__annotations__ = {"session": Annotated[str, require_auth]}
    with pytest.raises(TypeError, match=r"Annotated without Depends: .*Write Depends\("):
        FastAPI().get("/open")(secret)


async def called(request: Request) -> Any:
    return await require_auth(request)


async def called_sometimes(request: Request) -> Any:
    guard = require_csrf if request.method == "POST" else require_auth
    return await guard(request)


def the_request(request: Request) -> Request:
    return request


async def called_with_a_request_of_another(request: Any = Depends(the_request)) -> Any:
    return await require_auth(request)


def guarded(_session: Any = Depends(require_auth)) -> None: ...


def of_a_namesake() -> Any:
    return SimpleNamespace(require_auth="its own attribute").require_auth


def of_an_unassigned_name(*, is_assigned: bool = False) -> Callable[[], Any]:
    def dependency() -> Any:
        return later if is_assigned else None

    if is_assigned:
        later = require_auth
    return dependency


@pytest.mark.parametrize(
    "call",
    [
        *(called, called_sometimes, called_with_a_request_of_another, functools.partial(called)),
        *(guarded, require_auth, of_a_namesake, of_an_unassigned_name(), object),
    ],
)
async def test_a_dependency_that_calls_a_guard_is_served(call: Callable[..., Any]) -> None:
    world = make_world()
    world.app.get("/page", dependencies=[Depends(call)])(lambda: "page")
    browser = await world.signed_in()
    assert (await browser.get("/page")).json() == "page"
