"""What the application's own failures cost: an error answer, never a cookie."""

from __future__ import annotations

from typing import Any

from fastapi import HTTPException

from fastapi_oidc import RequestDataContext
from tests.oidc.web.asking import crashing
from tests.oidc.web.test_websockets import mount as mount_websocket
from tests.oidc.web.test_websockets import opened
from tests.oidc.world import make_world


async def test_a_crash_does_not_lose_the_refreshed_cookie() -> None:
    answer = await crashing()
    assert (answer.status_code, answer.text) == (500, "Internal Server Error")
    assert answer.headers["set-cookie"].startswith("__Host-oidc_session=")


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
