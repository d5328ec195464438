"""What the application's own failures cost: an error answer, never a cookie."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import HTTPException, Request
from fastapi.responses import PlainTextResponse

from fastapi_oidc import RequestDataContext
from tests.oidc.web.asking import LONG, crashing, mount
from tests.oidc.web.test_websockets import mount as mount_websocket
from tests.oidc.web.test_websockets import opened
from tests.oidc.world import make_world


async def test_a_crash_does_not_lose_the_refreshed_cookie() -> None:
    answer = await crashing()
    assert (answer.status_code, answer.text) == (500, "Internal Server Error")
    assert answer.headers["set-cookie"].startswith("__Host-oidc_session=")


async def test_a_crash_is_raised_for_the_servers_log() -> None:
    world = make_world(mount=mount)
    browser = await world.signed_in()
    world.time.advance(LONG)
    with pytest.raises(RuntimeError, match="a bug of the application"):
        await browser.get("/crash")


async def test_an_application_that_answers_crashes_itself_does_so() -> None:
    world = make_world(mount=mount)

    @world.app.exception_handler(Exception)
    async def answer_crash(_request: Request, _error: Exception) -> PlainTextResponse:
        return PlainTextResponse("our own page", 500)

    assert (await crashing(world)).text == "our own page"


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
    (close,) = await opened(world, dict(browser.cookies))
    assert (close["type"], close["code"]) == ("websocket.close", 1008)
