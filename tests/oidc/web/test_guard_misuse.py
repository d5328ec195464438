"""A guard that is written wrongly is refused, and leaves no endpoint open."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import ModuleType
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, WebSocket
from starlette.responses import RedirectResponse, Response

from fastapi_oidc import (
    OIDC,
    Code,
    ConfigurationError,
    OIDCError,
    OIDCMiddleware,
    SessionError,
    require_auth,
)
from fastapi_oidc.broker import Broker
from tests.oidc.web.asking import begin
from tests.oidc.web.test_startup import start
from tests.oidc.web.test_websockets import opened
from tests.oidc.world import make_world, signed_in_world

Make = Callable[[OIDC[Any, Any]], Any]


@pytest.mark.parametrize(
    ("make", "example"),
    [
        (lambda oidc: oidc.require, "oidc.require(lambda user: ...)"),
        (lambda oidc: oidc.require_role, "oidc.require_role('admin')"),
        (lambda oidc: oidc.require_recent, "oidc.require_recent(300)"),
        (lambda oidc: oidc.require_acr, "oidc.require_acr('mfa')"),
        (lambda oidc: oidc.api("https://app.test/api").require, "api.require('machines:write')"),
    ],
)
def test_a_guard_without_parentheses_is_refused_at_the_route(make: Make, example: str) -> None:
    guard, app, router = make(make_world().oidc), FastAPI(), APIRouter()

    async def secret() -> None: ...

    async def page(guarded: Any = Depends(guard)) -> None: ...

    routes: tuple[Callable[[], object], ...] = (
        lambda: app.get("/a", dependencies=[Depends(guard)])(secret),
        lambda: app.get("/b")(page),
        lambda: app.websocket("/c")(page),
        lambda: router.get("/d", dependencies=[Depends(guard)])(secret),
        lambda: FastAPI(dependencies=[Depends(guard)]).get("/e")(secret),
    )
    for define in routes:
        with pytest.raises(ConfigurationError) as caught:
            define()
        assert caught.value.code is Code.CONFIGURATION_INVALID
        assert f"Write Depends({example})" in caught.value.explanation


CALLS: dict[str, Callable[[OIDC[Any, Any], Request | WebSocket], Any]] = {
    "require_auth": lambda oidc, request: oidc.require_auth(request),
    "require_recent": lambda oidc, request: oidc.require_recent(300)(request),
    "oidc.get_session": lambda oidc, request: oidc.get_session(request),
    "oidc.is_still_signed_in": lambda oidc, request: oidc.is_still_signed_in(request),
    "api.access_token": lambda oidc, sent: oidc.registrations.engine.apis[0].access_token(sent),
    "api.caller": lambda oidc, sent: oidc.registrations.engine.apis[0].caller(sent),
}


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    oidc.api("https://app.test/api")

    @app.get("/async/{name}")
    async def secret(request: Request, name: str) -> str:
        _ = CALLS[name](oidc, request)
        return "secret"

    @app.get("/sync/{name}")
    def in_a_thread(request: Request, name: str) -> str:
        _ = CALLS[name](oidc, request)
        return "secret"


@pytest.mark.parametrize("how", ["async", "sync"])
@pytest.mark.parametrize("name", CALLS)
async def test_a_guard_without_await_sends_nothing(how: str, name: str) -> None:
    world = make_world(mount=mount)
    for browser in (world.browser(), await world.signed_in()):
        answer = await browser.get(f"/{how}/{name}")
        assert (answer.status_code, answer.json()["code"]) == (500, "configuration.invalid")
        assert "secret" not in answer.text
    assert f"{name} was called without await" in str(world.events[-1])


class Checker:
    """The dependency of many tutorials."""

    def __init__(self, guard: Callable[[], Any]) -> None:
        self._guard = guard

    def __call__(self) -> Any:
        return self._guard()


@pytest.mark.parametrize("name", ["require_recent", "api.require"])
async def test_a_guard_that_a_request_makes_has_to_be_called(name: str) -> None:
    world = make_world()
    api = world.oidc.api("https://app.test/api")
    make: Callable[[], Any] = {
        "require_recent": lambda: world.oidc.require_recent(300),
        "api.require": lambda: api.require("read"),
    }[name]
    make()  # outside of requests it is for a route that is made later
    world.app.get("/dropped", dependencies=[Depends(Checker(make))])(lambda: "secret")

    @world.app.get("/called")
    async def called(request: Request) -> str:
        with suppress(OIDCError):
            await make()(request)
        return "checked"

    for browser in (world.browser(), await world.signed_in()):
        assert (await browser.get("/called")).json() == "checked"
        assert (await browser.get("/dropped")).status_code == 500
    told = f"{name} was made within a request, and dropped. It has checked nothing"
    assert told in str(world.events[-1])


@pytest.mark.parametrize("is_handled", [False, True])
async def test_a_request_that_is_refused_needs_not_call_its_other_guards(is_handled: bool) -> None:
    world = make_world()
    if is_handled:
        world.app.add_exception_handler(SessionError, lambda *_: RedirectResponse("/sorry"))

    @world.app.get("/guarded")
    async def guarded(request: Request) -> None:
        permitted, recent = world.oidc.require(lambda _: False), world.oidc.require_recent(300)
        await permitted(request)
        await recent(request)

    @world.app.get("/missing")
    async def missing(request: Request) -> None:
        world.oidc.require_recent(300)
        raise HTTPException(404)

    alice = await world.signed_in()
    assert (await alice.get("/missing")).status_code == 404
    refused = await alice.get("/guarded", follow_redirects=False)
    assert refused.status_code == (307 if is_handled else 403)


@pytest.mark.parametrize("is_open", [False, True])
async def test_a_websocket_whose_guard_has_no_await_is_refused_and_told_of(
    is_open: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world(mount=mount)

    @world.app.websocket("/ws")
    async def ws(socket: WebSocket) -> None:
        if is_open:
            await socket.accept()
        CALLS["require_auth"](world.oidc, socket)
        if not is_open:
            await socket.accept()

    sent = [message["type"] for message in await opened(world, {})]
    assert ("websocket.accept" in sent) == is_open
    assert "ws: require_auth was called without await" in caplog.text


async def test_a_guard_without_await_is_found_before_the_first_request() -> None:
    oidc = make_world().oidc
    is_admin, guards = oidc.require(lambda _: True), ModuleType("guards")
    guards.oidc = oidc  # type: ignore[attr-defined]

    def dropped(request: Request) -> None:
        oidc.require_auth(request)

    async def dropped_in_a_block(request: Request) -> None:
        for _ in range(2):
            if request:
                is_admin(request)

    def made(request: Request) -> None:
        oidc.require_recent(300)

    def of_a_module(request: Request) -> None:
        guards.oidc.require_auth(request)

    broker: Any = Broker(make_world(session_store="memory").oidc, {})

    def of_the_broker() -> None:
        broker.withdraw(None)

    def returned() -> Any:
        return is_admin

    for endpoint, call in (
        (returned, "is_admin"),
        (dropped, "oidc.require_auth"),
        (dropped_in_a_block, "is_admin"),
        (made, "oidc.require_recent"),
        (of_a_module, "guards.oidc.require_auth"),
        (of_the_broker, "broker.withdraw"),
    ):
        app = FastAPI()
        app.add_middleware(OIDCMiddleware, oidc=oidc)
        app.delete("/notes", dependencies=[Depends(endpoint)])(lambda: None)
        with pytest.raises(ConfigurationError, match=f"/notes: .* calls `{call}.*without await"):
            await begin(app, "/notes")


async def test_a_guard_that_fastapi_does_not_read_is_refused() -> None:
    oidc = make_world().oidc
    guard = Depends(oidc.require_auth)

    class Call:
        def __call__(self, session: Annotated[Any, guard]) -> None: ...

    async def page() -> None: ...

    @wraps(page)
    async def decorated(*, session: Any = guard) -> None: ...

    for call in (Call, decorated):
        app = FastAPI()
        app.add_middleware(OIDCMiddleware, oidc=oidc)
        app.get("/notes", dependencies=[Depends(call)])(page)
        with pytest.raises(ConfigurationError, match=r"/notes: .* declares Depends\(require_auth"):
            await begin(app, "/notes")


async def test_a_name_of_the_function_is_no_guard() -> None:
    world = make_world()
    is_ok = world.oidc.require(lambda _: True)

    @world.app.get("/ok")
    async def page(request: Request) -> bool:
        def is_ok(given: Request) -> str:
            return given.method

        is_ok(request)
        return hasattr(request, "is_ok")

    assert (await world.browser().get("/ok")).json() is False
    assert is_ok.refuses


async def test_an_error_that_is_swallowed_leaves_no_endpoint_open() -> None:
    world = make_world()

    @world.app.get("/swallowed")
    async def page(request: Request) -> str:
        with suppress(Exception):
            if not world.oidc.get_session(request):
                return "closed"
        return "open"

    assert (await world.browser().get("/swallowed")).status_code == 500


NO_AWAIT = "oidc.get_session was called without await"


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda oidc, request: not oidc.get_session(request), NO_AWAIT),
        (lambda oidc, request: oidc.get_session(request) or None, NO_AWAIT),
        (lambda oidc, request: 1 if oidc.get_session(request) else 0, NO_AWAIT),
        (lambda oidc, request: oidc.require(request), "predicate of oidc.require is a"),
        (lambda oidc, request: oidc.require_recent(request), "oidc.require_recent takes"),
    ],
)
async def test_an_endpoint_that_asks_nobody_stops_there(ask: Any, told: str) -> None:
    world, deleted = make_world(), []

    @world.app.delete("/notes")
    async def delete(request: Request) -> None:
        ask(world.oidc, request)
        deleted.append(1)

    answer = await world.browser().delete("/notes")
    assert (answer.status_code, answer.json()["code"]) == (500, "configuration.invalid")
    assert told in str(world.events[-1])
    assert deleted == []


async def test_calls_whose_coroutine_is_used_are_no_mistakes() -> None:
    world = make_world()

    @world.app.get("/used")
    async def used(request: Request) -> str:
        guard = world.oidc.require_auth
        session, _ = await asyncio.gather(guard(request), world.oidc.get_locals(request))
        if not await world.oidc.get_session(request):
            return "nobody"
        assert await (request.scope.get("cached") or world.oidc.get_locals(request))
        cancelled = asyncio.create_task(world.oidc.get_session(request))
        cancelled.cancel()
        await asyncio.wait([cancelled])
        return str(session.sub)

    assert (await (await world.signed_in()).get("/used")).json() == "alice"


def mount_logins(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    async def required(request: Request) -> Response:
        return await oidc.login(request)

    @app.get("/returned", dependencies=[Depends(required)])
    async def returned() -> str:
        return "secret"

    @app.get("/dropped")
    async def dropped(request: Request) -> str:
        await oidc.login(request)
        return "secret"

    @app.get("/sent")
    async def sent(request: Request) -> Response:
        return await oidc.login(request)

    @app.get("/read")
    async def read(request: Request) -> str:
        return (await oidc.login(request)).headers["location"]


@pytest.mark.parametrize("path", ["/returned", "/dropped"])
async def test_an_endpoint_that_drops_the_redirect_sends_nothing(path: str) -> None:
    world, browser = await signed_in_world(mount=mount_logins)
    answer = await browser.get(path)
    assert (answer.status_code, answer.json()["code"]) == (500, "configuration.invalid")
    told = str(world.events[-1])
    assert "the response of oidc.login was dropped: return it from the endpoint" in told
    assert "The browser was not sent to the provider" in told


async def test_the_response_of_a_login_may_be_sent_or_read() -> None:
    browser = make_world(mount=mount_logins).browser()
    sent = await browser.get("/sent", follow_redirects=False)
    assert sent.headers["location"].startswith("https://op.")
    assert (await browser.get("/read")).json().startswith("https://op.")


@pytest.mark.parametrize(
    "use",
    [
        lambda guard: guard or guard,
        lambda guard: guard and guard,
        lambda guard: not guard,
        lambda guard: FastAPI(dependencies=[guard]).get("/")(lambda: None),
    ],
)
def test_a_guard_is_no_value(use: Callable[[Any], object]) -> None:
    guard = make_world().oidc.require(lambda _: True)
    with pytest.raises((TypeError, AttributeError), match=r"it is a dependency\. Write Depends\("):
        use(guard)


def test_a_guard_in_annotated_needs_depends() -> None:
    async def secret(session: Any) -> str:
        return "secret"

    secret.__annotations__ = {"session": Annotated[str, require_auth]}
    with pytest.raises(TypeError, match=r"Annotated without Depends: .*Write Depends\("):
        FastAPI().get("/open")(secret)


async def test_a_guard_as_a_default_value_needs_depends() -> None:
    world = make_world()

    async def secret(session: Any = require_auth) -> str:
        return "secret"

    world.app.get("/api/open")(secret)
    with pytest.raises(ConfigurationError, match=r"/api/open: the guard of 'session' of .* never"):
        await start(world.app)
