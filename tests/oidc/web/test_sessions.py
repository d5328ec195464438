"""What an application does with sessions: refresh, UserInfo, sign out everywhere."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import (
    OIDC,
    ConfigurationError,
    PersistContext,
    ProviderMetadata,
)
from fastapi_oidc.testing import ServerError
from tests.oidc.world import make_world

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/refresh")
    async def refresh(request: Request) -> int:
        return (await oidc.refresh(request)).generation

    @app.get("/info")
    async def info(request: Request) -> object:
        session = await oidc.require_auth(request)
        return await oidc.user_info(session)

    @app.get("/mine")
    async def mine(request: Request) -> list[str]:
        session = await oidc.require_auth(request)
        return [each.id for each in await oidc.sessions_of(session.sub)]


async def test_a_refresh_that_cannot_be_done_now_says_when() -> None:
    world = make_world(mount=mount)
    browser = await world.signed_in()
    world.op.faults.put("token", ServerError(), times=1)
    answer = await browser.get("/refresh")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
    assert int(answer.headers["retry-after"]) > 0
    assert (await browser.get("/me")).status_code == 200, "the session goes on"


async def test_user_info_is_asked_and_checked() -> None:
    world = make_world(mount=mount)
    browser = await world.signed_in()
    assert (await browser.get("/info")).json()["sub"] == "alice"


async def test_the_providers_metadata() -> None:
    world = make_world()
    metadata = await world.oidc.provider_metadata()
    assert isinstance(metadata, ProviderMetadata)
    assert metadata.issuer == world.op.issuer


async def ids(browser: Any) -> list[str]:
    answer = await browser.get("/mine")
    listed: list[str] = answer.json()
    return listed


async def test_a_revocation_that_nothing_can_keep_ends_nothing() -> None:
    sessions: list[Any] = []

    def before_session_persist(context: PersistContext[Any]) -> None:
        sessions.append(context.session)

    world = make_world(
        back_channel_logout_store=None, before_session_persist=before_session_persist
    )
    browser = await world.signed_in()
    with pytest.raises(ConfigurationError):
        await world.oidc.revoke(session_id=sessions[-1].id)
    assert (await browser.get("/me")).status_code == 200


async def test_a_request_that_cleared_its_session_does_not_get_it_back_by_a_refresh() -> None:
    """On a path where nothing was loaded before."""

    def clearing(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.post("/static/leave")
        async def leave(request: Request) -> int:
            oidc.clear_session(request)
            assert not await oidc.is_still_signed_in(request)
            return (await oidc.refresh(request)).generation

    world = make_world(mount=clearing, middleware={"exclude": ["/static"]})
    browser = await world.signed_in()
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
