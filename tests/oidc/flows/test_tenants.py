"""Signing in at a Microsoft Entra endpoint that many tenants share."""

from __future__ import annotations

import httpx
import pytest

from fastapi_oidc import Code
from fastapi_oidc.testing import DevUser, sign_in
from tests.oidc.flows.steps import AFTER_EXPIRY, user
from tests.oidc.world import LOGIN_URL, World, make_world

SHARED_ISSUER = "https://op.test/common/v2.0"
OURS = "11111111-aaaa-4444-8888-000000000000"
THEIRS = "22222222-bbbb-4444-8888-000000000000"


def of_tenants(*allowed: str) -> World:
    users = [DevUser("alice", tenant=OURS), DevUser("bob", tenant=THEIRS)]
    return make_world(
        provider={"issuer": SHARED_ISSUER, "users": users}, settings={"allowed_tenants": allowed}
    )


@pytest.mark.parametrize("allowed", [OURS, "*"])
async def test_user_of_an_allowed_tenant_signs_in_and_is_refreshed(allowed: str) -> None:
    """At an endpoint of Microsoft Entra that many tenants share."""
    world = of_tenants(allowed)
    browser = await world.signed_in("alice")
    world.time.advance(AFTER_EXPIRY)
    assert await user(browser) == "alice"
    assert "session.refreshed" in world.event_names()


async def test_user_of_another_tenant_is_refused() -> None:
    world = of_tenants(OURS)
    answer: httpx.Response = await sign_in(world.browser(), LOGIN_URL, user="bob")
    assert answer.json()["code"] == "id_token.issuer"
    [event] = [event for event in world.events if event.name == "login.refused"]
    assert THEIRS in event.explanation


async def test_refresh_that_changes_the_tenant_ends_the_session() -> None:
    world = of_tenants("*")
    browser = await world.signed_in("alice")
    moved = {"iss": SHARED_ISSUER.replace("common", THEIRS), "tid": THEIRS}
    world.op.edits.put("id_token", lambda said: said | moved)
    world.time.advance(AFTER_EXPIRY)
    assert await user(browser) is None


async def test_shared_endpoint_without_allowed_tenants_is_refused() -> None:
    answer = await of_tenants().browser().get("/auth/login")
    assert (answer.status_code, answer.json()["code"]) == (502, Code.PROVIDER_ISSUER_MISMATCH)
