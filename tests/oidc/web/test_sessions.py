"""What an application does with sessions: refresh, UserInfo, sign out everywhere."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Request
from starlette.routing import Route

from fastapi_oidc import (
    OIDC,
    OIDCSession,
    PersistContext,
    ProviderMetadata,
    RequestDataContext,
    SessionError,
    require_auth,
)
from fastapi_oidc.testing import ServerError, sign_in
from tests.oidc.world import make_world, signed_in_world

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


async def test_what_is_no_id_says_nothing_of_the_store(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world(session_store="memory")
    with pytest.raises(SessionError, match=r"this is no session's id: pass session.id"):
        await world.oidc.grant("alice")
    assert "session_store" not in caplog.text
    with pytest.raises(SessionError) as caught:
        await world.oidc.grant("a" * 22)
    assert "use a store on Redis or SQL as session_store" in caught.value.__notes__[0]
