"""What an application does with sessions: refresh, UserInfo, sign out everywhere."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request

from fastapi_oidc import (
    OIDC,
    ProviderMetadata,
)
from fastapi_oidc.testing import ServerError
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
