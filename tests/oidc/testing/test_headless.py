from contextlib import nullcontext
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, WebSocket

from fastapi_oidc import OIDC
from fastapi_oidc.testing import sign_in, sign_in_sync
from tests.oidc.world import BASE_URL, LOGIN_URL, World, make_world


async def test_an_application_without_the_providers_transport_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def no_network(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no network", request=request)

    async with make_world(transport=httpx.MockTransport(no_network)).browser() as browser:
        assert (await sign_in(browser, LOGIN_URL, user="alice")).status_code == 502
    assert "OIDC(..., transport=httpx.ASGITransport(provider.app))" in caplog.text


@pytest.fixture(params=[None, "memory"])
def world(request: pytest.FixtureRequest) -> World:
    return make_world(session_store=request.param)


@pytest.mark.parametrize("has_lifespan", [True, False])
@pytest.mark.parametrize("url", [LOGIN_URL, "/me"])
def test_a_person_signs_in_and_out(world: World, url: str, has_lifespan: bool) -> None:
    client = world.op.test_client(world.app, base_url=BASE_URL)
    with client if has_lifespan else nullcontext(client) as browser:
        page = sign_in_sync(browser, url, user="bob")
        assert (page.status_code, page.json()["sub"]) == (200, "bob")
        assert browser.get("/me").json()["sub"] == "bob"
        world.time.advance(3600)
        assert browser.get("/me").json()["generation"] == 1
        browser.post("/auth/logout", headers={"origin": BASE_URL})
        assert browser.get("/me").status_code == 401


def test_the_lifespan_is_that_of_the_application(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    world.app.router.routes.clear()
    with world.op.test_client(world.app, base_url=BASE_URL):
        pass
    assert "has no route for: login, callback" in caplog.text


def with_websocket(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.websocket("/ws")
    async def ws(socket: WebSocket, session: Any = Depends(oidc.require_auth)) -> None:
        await socket.accept()
        await socket.send_text(session.sub)
        await socket.close()


@pytest.mark.parametrize("url", ["/ws", "wss://app.test/ws"])
def test_a_websocket_by_its_path_has_the_session(url: str) -> None:
    world = make_world(mount=with_websocket)
    with world.op.test_client(world.app, base_url=BASE_URL) as browser:
        sign_in_sync(browser, LOGIN_URL, user="alice")
        with browser.websocket_connect(url) as socket:
            assert socket.receive_text() == "alice"


async def test_a_client_with_await_that_does_not_reach_the_provider_is_named() -> None:
    world = make_world()
    transport = httpx.ASGITransport(world.app)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as browser:
        with pytest.raises(RuntimeError, match=r"provider\.browser\(app"):
            await sign_in(browser, "/me", user="alice")


@pytest.mark.parametrize("path", ["/missing", "/auth/login?return_to=/missing"])
def test_a_page_that_is_not_there_is_no_such_mistake(path: str, world: World) -> None:
    with world.op.test_client(world.app, base_url=BASE_URL) as browser:
        page: Any = sign_in_sync(browser, path, user="alice")
    assert page.status_code == 404
