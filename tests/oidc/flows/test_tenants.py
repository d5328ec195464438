"""Signing in at a Microsoft Entra endpoint that many tenants share."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from fastapi_oidc import Code
from fastapi_oidc.testing import DevUser, sign_in
from tests.oidc.world import World, make_world

SHARED = "https://op.test/common/v2.0"
OURS, THEIRS = "11111111-aaaa-4444-8888-000000000000", "22222222-bbbb-4444-8888-000000000000"
USERS = [DevUser("alice", tenant=OURS), DevUser("bob", tenant=THEIRS)]


def make_tenants(*allowed: str, **options: Any) -> World:
    return make_world(
        provider={"issuer": SHARED, "users": USERS},
        settings={"allowed_tenants": allowed},
        **options,
    )


async def is_signed_in(browser: httpx.AsyncClient) -> bool:
    return (await browser.get("/me")).status_code == 200


@pytest.mark.parametrize("allowed", [[OURS], ["*"]])
async def test_somebody_of_an_allowed_tenant_signs_in_and_stays(allowed: list[str]) -> None:
    world = make_tenants(*allowed)
    browser = await world.signed_in("alice")
    world.time.advance(400)
    assert await is_signed_in(browser)
    assert "session.refreshed" in world.event_names()


async def test_somebody_of_another_tenant_does_not() -> None:
    world = make_tenants(OURS)
    async with world.browser() as browser:
        await sign_in(browser, "/auth/login?return_to=/me", user="bob")
        assert not await is_signed_in(browser)
    [event] = [event for event in world.events if event.name == "login.refused"]
    assert event.code is Code.ID_TOKEN_ISSUER
    assert THEIRS in event.explanation


async def test_a_refresh_that_changes_the_tenant_ends_the_session() -> None:
    world = make_tenants("*")
    browser = await world.signed_in("alice")
    moved = {"iss": SHARED.replace("common", THEIRS), "tid": THEIRS}
    world.op.edits.put("id_token", lambda said: said | moved)
    world.time.advance(400)
    assert not await is_signed_in(browser)
    assert world.events[-1].code is Code.ID_TOKEN_ISSUER


@pytest.mark.parametrize(("tenant", "is_over"), [(OURS, True), (THEIRS, False)])
async def test_a_logout_token_is_of_an_allowed_tenant_too(tenant: str, is_over: bool) -> None:
    world = make_tenants(OURS)
    browser = await world.signed_in("alice")
    said_by = {"iss": SHARED.replace("common", tenant), "tid": tenant}
    world.op.edits.put("logout_token", lambda said: said | said_by)
    await world.op.log_out("alice")
    assert await is_signed_in(browser) is not is_over


async def test_without_being_asked_for_a_shared_endpoint_is_refused() -> None:
    world = make_tenants()
    async with world.browser() as browser:
        answer = await browser.get("/auth/login")
    assert (answer.status_code, answer.json()["code"]) == (502, Code.PROVIDER_ISSUER_MISMATCH)
