"""A page of the provider ends sessions by `iss` and `sid` (Front-Channel Logout 1.0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from fastapi_oidc import Code, ConfigurationError, ProtocolViolation
from fastapi_oidc.protocol.front_channel import front_channel_session
from fastapi_oidc.protocol.tenants import Tenants
from fastapi_oidc.testing import DevUser, SignedIn
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.flows.steps import user
from tests.oidc.world import Time, World, make_world

PATH = "/auth/frontchannel-logout"
ISSUER = "https://op.test"
SHARED = "https://op.test/common/v2.0"
OTHER_TENANT = "11111111-2222-4333-8444-555555555555"
TENANT = "9188040d-6c67-4c5b-b112-36a304b66dad"


def world_of(**options: Any) -> World:
    return make_world(settings={"front_channel_logout": True}, **options)


def sid_of(world: World) -> str:
    sid = world.op.record.of(SignedIn)[-1].sid
    assert sid is not None
    return sid


async def framed(world: World, **parameters: Any) -> httpx.Response:
    """What a frame without cookies gets."""
    async with world.browser() as frame:
        return await frame.get(PATH, params=parameters)


@pytest.mark.parametrize("options", [{}, {"session_store": "memory"}])
async def test_the_sessions_of_the_sid_end_without_a_cookie(options: dict[str, Any]) -> None:
    world = world_of(**options)
    alice, bob = await world.signed_in("alice"), await world.signed_in("bob")
    answer = await framed(world, iss=ISSUER, sid=sid_of(world))
    assert (answer.status_code, answer.content) == (200, b"")
    policy = answer.headers["content-security-policy"]
    assert policy == "default-src 'none'; frame-ancestors https://op.test"
    assert answer.headers["cache-control"] == "no-store"
    assert (await user(alice), await user(bob)) == ("alice", None)
    assert "front_channel_logout.accepted" in world.event_names()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda query: query.pop("iss"), "logout_request.malformed"),
        (lambda query: query.pop("sid"), "logout_request.malformed"),
        (lambda query: query.update(sid=""), "logout_request.malformed"),
        (lambda query: query.update(sid=[query["sid"], "other"]), "logout_request.malformed"),
        (lambda query: query.update(iss=[ISSUER, ISSUER]), "logout_request.malformed"),
        (lambda query: query.update(sid="a" * 256), "logout_request.malformed"),
        (lambda query: query.update(iss="https://other.test"), "logout_request.issuer"),
        (lambda query: query.update(iss=ISSUER + "/"), "logout_request.issuer"),
    ],
)
async def test_anything_else_ends_nothing(
    change: Callable[[dict[str, Any]], object], code: str
) -> None:
    world = world_of()
    browser = await world.signed_in()
    query: dict[str, Any] = {"iss": ISSUER, "sid": sid_of(world)}
    change(query)
    answer = await framed(world, **query)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert await user(browser) == "alice"
    refused = [event for event in world.events if event.name == "front_channel_logout.refused"]
    assert [event.code for event in refused] == [code]


@pytest.mark.parametrize(
    ("allowed", "iss"),
    [
        (TENANT, f"https://op.test/{OTHER_TENANT}/v2.0"),
        (TENANT, "https://op.test/common/v2.0"),
        (TENANT, f"https://op.test/{TENANT}/v2.0/"),
        (TENANT, f"https://op.test/{TENANT.upper()}/v2.0"),
        ("*", "https://op.test/common/v2.0"),
        ("*", f"https://other.test/{TENANT}/v2.0"),
    ],
)
def test_a_shared_issuer_stands_for_its_tenants_alone(allowed: str, iss: str) -> None:
    tenants = Tenants.of(SHARED, [allowed])
    with pytest.raises(ProtocolViolation) as caught:
        front_channel_session({"iss": [iss], "sid": ["1"]}, SHARED, tenants=tenants)
    assert caught.value.code is Code.LOGOUT_REQUEST_ISSUER


@pytest.mark.parametrize("allowed", [TENANT, "*"])
def test_a_shared_issuer_stands_for_its_tenants(allowed: str) -> None:
    iss = f"https://op.test/{TENANT}/v2.0"
    tenants = Tenants.of(SHARED, [allowed])
    assert front_channel_session({"iss": [iss], "sid": ["1"]}, SHARED, tenants=tenants) == (
        iss,
        "1",
    )


async def test_a_store_that_is_down_is_no_success() -> None:
    time = Time()
    outage, stores = fallible("cookie", time)
    world = world_of(time=time, **stores)
    outage.is_down = True
    assert (await framed(world, iss=ISSUER, sid="1")).status_code == 503


async def test_it_is_mounted_only_when_asked_for() -> None:
    assert (await framed(make_world(), iss=ISSUER, sid="1")).status_code == 404


def test_it_needs_a_store() -> None:
    with pytest.raises(ConfigurationError) as caught:
        world_of(back_channel_logout_store=None)
    assert caught.value.code is Code.CONFIGURATION_STORE_MISSING


async def test_a_tenants_user_is_signed_out() -> None:
    world = make_world(
        settings={"front_channel_logout": True, "allowed_tenants": [TENANT]},
        provider={"issuer": SHARED, "users": [DevUser("alice", tenant=TENANT)]},
    )
    browser = await world.signed_in()
    await framed(world, iss=f"https://op.test/{TENANT}/v2.0", sid=sid_of(world))
    assert await user(browser) is None
