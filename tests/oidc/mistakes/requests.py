"""Mistakes that show as a refused request, or in a test of the application."""

from typing import Any

import pytest
from fastapi import Depends, FastAPI, Request, WebSocket
from fastapi.middleware.cors import CORSMiddleware
from starlette.testclient import TestClient

from fastapi_oidc import OIDC
from fastapi_oidc.testing import sign_in, sign_in_sync
from tests.oidc.flows.fallible_stores import fallible_world
from tests.oidc.mistakes.desk import Desk
from tests.oidc.web.asking import begin
from tests.oidc.web.test_websockets import opened
from tests.oidc.world import BASE_URL, make_world, signed_in_world

SCRIPT = {"origin": "https://pages.test", "sec-fetch-mode": "cors", "sec-fetch-site": "cross-site"}


async def no_token_in_a_form(desk: Desk) -> str:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        app.post("/notes", dependencies=[Depends(oidc.require_csrf)])(lambda: None)

    browser = await make_world(mount=mount).signed_in()
    answer = await browser.post("/notes", data={"csrf": "a field of another name"})
    return f"{answer.text}\n{desk.log}"


async def a_websocket_of_another_origin(desk: Desk) -> str:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.websocket("/ws")
        async def ws(socket: WebSocket) -> None:
            await oidc.require_auth(socket)

    world, browser = await signed_in_world(mount=mount)
    await opened(world, dict(browser.cookies), (b"origin", b"https://pages.test"))
    return desk.log


async def no_cors(desk: Desk) -> str:
    async with make_world().browser() as browser:
        answer = await browser.get("/me", headers=SCRIPT)
        assert "access-control-allow-origin" not in answer.headers
    return desk.log


async def a_sign_out_by_fetch(_desk: Desk) -> str:
    """The mistake, and the two remedies."""
    world = make_world()
    world.app.add_middleware(CORSMiddleware, allow_origins=[BASE_URL], allow_credentials=True)
    script = {"origin": BASE_URL, "sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
    browser = await world.signed_in()
    remedy = await browser.post("/auth/logout", data={"local": "1"}, headers=script)
    assert [str(each.url) for each in (*remedy.history, remedy)][1:] == [f"{BASE_URL}/"]
    browser = await world.signed_in()
    answer = await browser.post("/auth/logout", headers=script, follow_redirects=False)
    assert not (await browser.get("/auth/session")).json()["is_authenticated"]
    return answer.headers["location"]


async def a_link_to_the_sign_out(_desk: Desk) -> str:
    async with make_world().browser() as browser:
        return (await browser.get("/auth/logout", headers={"accept": "text/html"})).text


async def a_session_that_no_middleware_reads(_desk: Desk) -> str:
    app = FastAPI()

    @app.get("/me")
    async def me(request: Request) -> object:
        return request.state.oidc

    with pytest.raises(AttributeError) as caught:
        await begin(app, "/me")
    return str(caught.value)


async def a_store_that_is_down(desk: Desk) -> str:
    world, outage = fallible_world("store")
    browser = await world.signed_in()
    outage.is_down = True
    answer = await browser.get("/me")
    return f"{answer.status_code} {answer.headers.raw} {answer.text}\n{desk.log}"


async def a_client_without_the_provider(_desk: Desk) -> str:
    with (
        TestClient(make_world().app, base_url=BASE_URL) as client,
        pytest.raises(RuntimeError) as caught,
    ):
        sign_in_sync(client, "/me", user="alice")
    return str(caught.value)


async def a_user_whom_nobody_knows(_desk: Desk) -> str:
    async with make_world().browser() as browser:
        return (await sign_in(browser, "/me", user="carol")).text
