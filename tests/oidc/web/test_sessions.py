"""What an application does with sessions, and with handlers that it mounts one by one."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse
from starlette.routing import Route

from fastapi_oidc import (
    OIDC,
    ConfigurationError,
    IdentityContext,
    OIDCMiddleware,
    OIDCSession,
    PersistContext,
    ProviderMetadata,
    RequestDataContext,
    SessionError,
    SignedIn,
    StandardIdentity,
    require_auth,
)
from fastapi_oidc.testing import ServerError, sign_in
from fastapi_oidc.web.misuse import require_takes
from tests.oidc.world import BASE_URL, World, make_world, signed_in_world

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/refresh")
    async def refresh(request: Request) -> int:
        return (await oidc.refresh(request)).generation


async def test_a_refresh_that_cannot_be_done_now_says_when() -> None:
    world, browser = await signed_in_world(mount=mount)
    world.op.faults.put("token", ServerError(), times=1)
    answer = await browser.get("/refresh")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
    assert int(answer.headers["retry-after"]) > 0
    assert (await browser.get("/me")).status_code == 200, "the session goes on"

    @world.app.get("/told")
    async def told(request: Request) -> None:
        with pytest.raises(SessionError, match="the session cannot be refreshed right now: "):
            await world.oidc.refresh(request)

    assert (await browser.get("/told")).status_code == 200


async def test_the_providers_metadata() -> None:
    world = make_world()
    metadata = await world.oidc.provider_metadata()
    assert isinstance(metadata, ProviderMetadata)
    assert metadata.issuer == world.op.issuer


async def test_a_request_that_cleared_its_session_does_not_get_it_back_by_a_refresh() -> None:
    """On a path where nothing was loaded before."""

    def clearing(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.post("/static/leave")
        async def leave(request: Request) -> int:
            oidc.clear_session(request)
            assert not await oidc.is_still_signed_in(request)
            return (await oidc.refresh(request)).generation

    world, browser = await signed_in_world(mount=clearing, middleware={"exclude": ["/static"]})
    answer = await browser.post("/static/leave")
    assert answer.status_code == 401
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert (await browser.get("/me")).status_code == 401
    assert world.op.record.calls["token"] == 1


async def test_without_a_session_there_is_nothing_to_refresh() -> None:
    async with make_world(mount=mount).browser() as browser:
        assert (await browser.get("/refresh")).status_code == 401
        page = await browser.get("/refresh", headers=NAVIGATION, follow_redirects=False)
        assert page.headers["location"].startswith("/auth/login?return_to=%2Frefresh")


@pytest.mark.parametrize("path", ["/me", "/auth/session", "/excluded"])
async def test_the_callback_that_loads_the_data_may_clear_the_session(path: str) -> None:
    is_suspended: list[bool] = []

    def load_request_data(context: RequestDataContext[Any]) -> None:
        if is_suspended:
            world.oidc.clear_session(context.connection)

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/excluded")
        async def excluded(request: Request) -> str:
            return (await oidc.require_auth(request)).sub

    middleware = {"exclude": ["/excluded"]}
    world, browser = await signed_in_world(
        mount=mount, middleware=middleware, load_request_data=load_request_data
    )
    is_suspended.append(True)
    answer = await browser.get(path)
    assert "alice" not in answer.text
    assert "Max-Age=0" in answer.headers["set-cookie"]


async def test_a_login_whose_data_clear_the_session_signs_nobody_in() -> None:
    def load_request_data(context: RequestDataContext[Any]) -> None:
        world.oidc.clear_session(context.connection)

    world = make_world(load_request_data=load_request_data)
    seen: list[object] = []

    def on_success(request: Request, _: object) -> None:
        seen.append(request.state.oidc.session)

    handler = world.oidc.callback_handler(on_success=on_success)
    world.app.router.routes.insert(0, Route("/auth/callback", handler))
    browser = world.browser()
    await sign_in(browser, "/auth/login?return_to=/", user="alice")
    assert seen == [None]
    assert (await browser.get("/me")).status_code == 401


async def test_a_session_that_is_cleared_during_its_refresh_stays_cleared() -> None:
    refreshing, cleared = asyncio.Event(), asyncio.Event()

    async def before_session_persist(context: PersistContext[Any]) -> None:
        if context.reason == "refresh":
            refreshing.set()
            await cleared.wait()

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/excluded")
        async def excluded(request: Request) -> list[bool]:
            loading = asyncio.create_task(oidc.get_locals(request))
            await refreshing.wait()
            oidc.clear_session(request)
            cleared.set()
            locals = await loading
            return [locals.is_authenticated, request.state.oidc.is_authenticated]

    middleware = {"exclude": ["/excluded"]}
    world, browser = await signed_in_world(
        mount=mount, middleware=middleware, before_session_persist=before_session_persist
    )
    world.time.advance(3600)
    answer = await browser.get("/excluded")
    assert answer.json() == [False, False]
    assert "Max-Age=0" in answer.headers["set-cookie"]


seen: list[weakref.ref[OIDCSession[Any]]] = []


def noting_sessions(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/seen")
    async def see(session: Annotated[OIDCSession[Any], Depends(require_auth)]) -> None:
        seen.append(weakref.ref(session))


@pytest.fixture
def no_garbage_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collector")
async def test_a_session_is_freed_with_its_request() -> None:
    browser = await make_world(mount=noting_sessions).signed_in()
    assert (await browser.get("/seen")).status_code == 200
    assert seen.pop()() is None


async def test_a_grant_of_another_process_needs_a_shared_store() -> None:
    world = make_world(session_store="memory")
    with pytest.raises(SessionError) as caught:
        await world.oidc.grant("a" * 22)
    assert "use a store on Redis or SQL as session_store" in caught.value.__notes__[0]


def mounted(world: World, **handlers: Callable[..., Any]) -> FastAPI:
    """An app of its own with some of the handlers."""
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=world.oidc)
    app.get("/in")(world.oidc.login_handler())
    app.get("/auth/callback")(world.oidc.callback_handler(**handlers))
    app.post("/out")(world.oidc.logout_handler())
    app.get("/who")(world.oidc.session_handler())
    return app


async def signed_in(browser: httpx.AsyncClient) -> bool:
    return bool((await browser.get("/who")).json()["is_authenticated"])


async def test_every_route_has_a_handler() -> None:
    world = make_world()
    app = mounted(world)
    app.get("/watch")(world.oidc.session_management_handler())
    app.get("/script.js")(world.oidc.script_handler())
    async with world.op.browser(app, base_url=BASE_URL) as browser:
        assert (await browser.get("/who")).json() == {"is_authenticated": False}
        assert (await browser.get("/watch")).json()["client_id"] == "app"
        assert "OIDCContext" in (await browser.get("/script.js")).text


@pytest.mark.parametrize("store", [None, "memory"])
@pytest.mark.parametrize("refusal", ["raised", "responded", "cleared"])
async def test_an_on_success_that_refuses_leaves_no_session(store: Any, refusal: str) -> None:
    def turn_away(request: Request, _signed_in: SignedIn[Any]) -> PlainTextResponse:
        if refusal == "raised":
            raise HTTPException(403, "suspended")
        if refusal == "cleared":
            world.oidc.clear_session(request)
        return PlainTextResponse("you may not", 403 if refusal == "responded" else 200)

    world = make_world(session_store=store)
    before = await world.signed_in()
    async with world.op.browser(mounted(world, on_success=turn_away), base_url=BASE_URL) as browser:
        browser.cookies.update(dict(before.cookies))
        answer = await sign_in(browser, "/in", user="alice")
        assert "__Host-oidc_session=ey" not in str(answer.headers.raw)
        assert not await signed_in(browser)
    assert store is None or await world.oidc.sessions_of("alice") == []


@pytest.mark.parametrize("store", [None, "memory"])
@pytest.mark.parametrize("again", ["reload", "silent check"])
async def test_data_that_cannot_be_loaded_ends_no_session(store: Any, again: str) -> None:
    down: list[bool] = []

    def load_request_data(_context: object) -> None:
        if down:
            raise HTTPException(503, "no data")

    world = make_world(session_store=store, load_request_data=load_request_data)
    app = mounted(world, on_success=lambda _request, _signed_in: None)
    async with world.op.browser(app, base_url=BASE_URL) as browser:
        answer = await sign_in(browser, "/in", user="alice")
        callback = [str(each.url) for each in answer.history if "code=" in str(each.url)][-1]
        down.append(True)
        url = callback if again == "reload" else "/in?silent=1"
        assert (await browser.get(url)).status_code == 503
        down.clear()
        assert await signed_in(browser)


async def test_an_on_success_sees_who_signed_in_and_the_data_of_the_request() -> None:
    seen: list[object] = []

    async def note(request: Request, signed_in: SignedIn[Any]) -> None:
        locals = await world.oidc.get_locals(request)
        assert request.state.oidc is locals
        seen.extend([signed_in.session.sub, locals.identity.sub, locals.data])

    world = make_world(load_request_data=lambda context: f"data of {context.session.sub}")
    async with world.op.browser(mounted(world, on_success=note), base_url=BASE_URL) as browser:
        await sign_in(browser, "/in?return_to=/who", user="alice")
    assert seen == ["alice", "alice", "data of alice"]


async def test_a_request_that_signs_out_is_nobodys() -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/clear")
        async def clear(request: Request) -> object:
            oidc.clear_session(request)
            locals = await oidc.get_locals(request)
            signed_in = [request.state.oidc.is_authenticated, locals.is_authenticated]
            return [*signed_in, locals.data, await oidc.get_session(request)]

    _, browser = await signed_in_world(mount=mount, load_request_data=lambda _context: "data")
    assert (await browser.get("/clear")).json() == [False, False, None, None]
    assert (await browser.get("/")).json() == {"is_authenticated": False}


async def test_a_result_that_is_no_response_says_so() -> None:
    world = make_world()
    app = mounted(world, on_success=lambda _request, _signed_in: "/welcome")
    async with world.op.browser(app, base_url=BASE_URL) as browser:
        with pytest.raises(TypeError, match="result of on_success must be Response or None, not s"):
            await sign_in(browser, "/in", user="alice")
        assert not await signed_in(browser)


async def test_only_own_urls_are_returned_to(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    async with world.browser() as browser:
        page = await sign_in(browser, f"/auth/login?return_to={BASE_URL}/me", user="alice")
        assert page.url.path == "/me"
        left = await browser.post("/auth/logout", data={"return_to": f"{BASE_URL}/me", "local": 1})
        assert (left.history[0].headers["location"], caplog.messages) == ("/me", [])
        await browser.post("/auth/logout", data={"return_to": "https://pages.test/", "local": 1})
    assert "return_to: nobody returns to 'https://pages.test/': only paths of" in caplog.text


@pytest.mark.parametrize(
    ("query", "host", "told"),
    [
        ("return_to=/me&utm_source=mail", "localhost:8000", ""),
        ("return_to=/me&next=/me", "127.0.0.1", ""),
        ("return_to=https://localhost/me", "localhost", ""),
        ("redirect_uri=/me", "localhost", "a login: does not read 'redirect_uri', but return_to,"),
        ("return_to=//pages.test", "localhost", "return_to: nobody returns to '//pages.test'"),
        ("return_to=me", "localhost", "return_to: nobody returns to 'me': only paths of this app"),
        ("", "app.example", "base_url: it is missing, so a login returns to the host of its req"),
    ],
)
async def test_why_a_login_may_surprise_is_told(
    query: str, host: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world(settings={"base_url": None, "allow_insecure_http": True})
    async with world.browser() as browser:
        await browser.get(f"/auth/login?{query}", headers={"host": host})
    advice = [each for each in caplog.messages if not each.startswith("DevProvider")]
    assert [each[: len(told)] for each in advice] == [told] * bool(told)


def of_two(claims: Any, user_info: Any) -> StandardIdentity:
    return StandardIdentity(sub=claims["sub"] + user_info["sub"])


async def of_none() -> None: ...


def of_one(page: Any) -> None: ...


@pytest.mark.parametrize(
    ("option", "callback", "said"),
    [
        ("resolve_identity", of_two, "is called with (IdentityContext), and takes (claims: "),
        ("create_public_session", of_none, "is called with (PublicSessionContext), and takes"),
        ("render_page", of_one, "is called with (Request, Page), and takes (page: "),
        ("before_session_persist", "approve", "is a function, not str"),
    ],
)
def test_a_callback_of_something_else_is_refused(option: str, callback: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make_world(**{option: callback})
    assert f"{option} {said}" in str(refused.value)


FITTING: list[Any] = [of_one, partial(of_two, {}), lambda *anything, **named: None, print, type]


@pytest.mark.parametrize("callback", FITTING)
def test_what_may_fit_is_accepted(callback: Any) -> None:
    require_takes("callback", callback, IdentityContext)
