"""What the application's own failures cost: an error answer, never a cookie."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse

from fastapi_oidc import OIDC, RequestDataContext
from tests.oidc.web.test_middleware import CLOSE_TO_EXPIRY, websocket
from tests.oidc.web.test_middleware import mount as mount_websocket
from tests.oidc.world import BASE_URL, World, make_world


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/crash")
    async def crash() -> None:
        raise RuntimeError("a bug of the application")


async def crashed(world: World) -> httpx.Response:
    browser = await world.signed_in()
    world.time.advance(CLOSE_TO_EXPIRY)
    transport = httpx.ASGITransport(world.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as same:
        same.cookies.update(dict(browser.cookies))
        return await same.get("/crash")


async def test_a_crash_does_not_lose_the_refreshed_cookie() -> None:
    answer = await crashed(make_world(mount=mount))
    assert (answer.status_code, answer.text) == (500, "Internal Server Error")
    assert answer.headers["set-cookie"].startswith("__Host-oidc_session=")


async def test_a_crash_is_raised_for_the_servers_log() -> None:
    world = make_world(mount=mount)
    browser = await world.signed_in()
    world.time.advance(CLOSE_TO_EXPIRY)
    with pytest.raises(RuntimeError, match="a bug of the application"):
        await browser.get("/crash")


async def test_an_application_that_answers_crashes_itself_does_so() -> None:
    world = make_world(mount=mount)

    @world.app.exception_handler(Exception)
    async def answer_crash(_request: Request, _error: Exception) -> PlainTextResponse:
        return PlainTextResponse("our own page", 500)

    assert (await crashed(world)).text == "our own page"


def suspended(_context: RequestDataContext[Any]) -> None:
    raise HTTPException(403, "suspended", {"X-Reason": "suspended"})


async def test_load_request_data_may_raise_http_errors() -> None:
    world = make_world(load_request_data=suspended)
    async with world.browser() as browser:
        answer = await browser.get("/auth/login?return_to=/me&login_hint=alice")
    assert answer.url.path == "/me"
    assert (answer.status_code, answer.json()) == (403, {"detail": "suspended"})
    assert answer.headers["x-reason"] == "suspended"


async def test_load_request_data_may_refuse_a_websocket() -> None:
    world = make_world(mount=mount_websocket, load_request_data=suspended)
    async with world.browser() as browser:
        await browser.get("/auth/login?return_to=/auth/session-management&login_hint=alice")
    (close,) = await websocket(world, dict(browser.cookies))
    assert (close["type"], close["code"]) == ("websocket.close", 1008)
