"""What an application does with sessions: refresh, UserInfo, sign out everywhere."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import (
    OIDC,
    Code,
    ConfigurationError,
    PersistContext,
    ProtocolViolation,
    ProviderMetadata,
)
from fastapi_oidc.testing import OAuthError, ServerError, TokensIssued
from tests.oidc.protocol.examples import refused
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


async def test_tokens_are_refreshed_when_the_application_says_so() -> None:
    world = make_world(mount=mount)
    browser = await world.signed_in()
    assert (await browser.get("/refresh")).json() == 1
    assert (await browser.get("/me")).json()["generation"] == 1, "the browser has it"
    assert (await browser.get("/refresh")).json() == 2


async def test_without_a_session_there_is_nothing_to_refresh() -> None:
    async with make_world(mount=mount).browser() as browser:
        assert (await browser.get("/refresh")).status_code == 401
        page = await browser.get("/refresh", headers=NAVIGATION, follow_redirects=False)
        assert page.headers["location"].startswith("/auth/login?return_to=%2Frefresh")


async def test_a_session_that_was_revoked_is_not_refreshed() -> None:
    world = make_world(mount=mount)
    browser = await world.signed_in()
    await world.oidc.revoke(sub="alice")
    answer = await browser.get("/refresh")
    assert (answer.status_code, answer.json()["code"]) == (401, "session.required")


async def test_a_refresh_that_cannot_be_done_now_says_when() -> None:
    world = make_world(mount=mount)
    browser = await world.signed_in()
    world.op.faults.put("token", ServerError(), times=1)
    answer = await browser.get("/refresh")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
    assert int(answer.headers["retry-after"]) > 0
    assert (await browser.get("/me")).status_code == 200, "the session goes on"


async def test_a_session_without_a_refresh_token_asks_the_provider_nothing() -> None:
    world = make_world(mount=mount, client={"issue_refresh_tokens": False})
    browser = await world.signed_in()
    asked = len(world.op.record.of(TokensIssued))
    answer = await browser.get("/refresh")
    assert (answer.status_code, answer.json()["code"]) == (500, "configuration.invalid")
    assert len(world.op.record.of(TokensIssued)) == asked
    assert "session.refresh_postponed" not in world.event_names()
    assert (await browser.get("/me")).json()["generation"] == 0


async def test_user_info_is_asked_and_checked() -> None:
    world = make_world(mount=mount)
    browser = await world.signed_in()
    assert (await browser.get("/info")).json()["sub"] == "alice"


async def test_user_info_of_somebody_else_is_refused() -> None:
    world = make_world(mount=mount, session_store="memory")
    await world.signed_in()
    (session,) = await world.oidc.sessions_of("alice")
    with refused(Code.USERINFO_SUBJECT, ProtocolViolation):
        await world.oidc.user_info(session.model_copy(update={"sub": "bob"}))


async def test_the_providers_metadata() -> None:
    world = make_world()
    metadata = await world.oidc.provider_metadata()
    assert isinstance(metadata, ProviderMetadata)
    assert metadata.issuer == world.op.issuer


async def ids(browser: Any) -> list[str]:
    answer = await browser.get("/mine")
    listed: list[str] = answer.json()
    return listed


async def test_a_user_sees_and_ends_sessions_one_by_one() -> None:
    world = make_world(mount=mount, session_store="memory")
    phone = await world.signed_in()
    world.time.advance(1)
    laptop = await world.signed_in()
    newest, oldest = await ids(laptop)
    await world.oidc.revoke(session_id=oldest)
    assert (await phone.get("/me")).status_code == 401
    assert await ids(laptop) == [newest]


@pytest.mark.parametrize("store", [None, "memory"])
async def test_a_user_is_signed_out_everywhere(store: Any) -> None:
    world = make_world(mount=mount, session_store=store)
    phone, laptop = await world.signed_in(), await world.signed_in()
    bob = await world.signed_in("bob")
    await world.oidc.revoke(sub="alice")
    for browser in (phone, laptop):
        answer = await browser.get("/me")
        assert (answer.status_code, answer.json()["ended"]) == (401, "revoked")
    assert (await bob.get("/me")).status_code == 200
    world.time.advance(1)
    assert (await (await world.signed_in()).get("/me")).status_code == 200, "a later login"


@pytest.mark.parametrize("store", [None, "memory"])
async def test_a_long_lived_connection_is_told_that_the_provider_ended_the_session(
    store: Any,
) -> None:
    def with_still(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/still")
        async def still(request: Request) -> bool:
            return await oidc.is_still_signed_in(request)

    world = make_world(
        mount=with_still,
        middleware={"exclude": ["/still"]},
        session_store=store,
        back_channel_logout_store=None,
    )
    browser = await world.signed_in()
    long_lived = world.browser()
    long_lived.cookies.update(dict(browser.cookies))
    for answer in ([], [OAuthError("invalid_grant")]):
        world.time.advance(400)
        assert (await long_lived.get("/still")).json() is True
        for fault in answer:
            world.op.faults.put("token", fault)
        await browser.get("/me")
    world.time.advance(400)
    assert (await long_lived.get("/still")).json() is False


async def test_what_no_store_can_do_is_said() -> None:
    world = make_world(back_channel_logout_store=None)
    for call in (world.oidc.revoke(sub="alice"), world.oidc.sessions_of("alice")):
        with refused(Code.CONFIGURATION_STORE_MISSING, ConfigurationError):
            await call


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
