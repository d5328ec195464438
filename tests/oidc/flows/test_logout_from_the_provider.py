"""The provider ends sessions by a logout token (Back-Channel Logout 1.0)."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from fastapi_oidc import Code, ConfigurationError
from fastapi_oidc.testing import DevUser, LogoutDelivered, SignedIn
from tests.oidc.flows.fallible_stores import fallible_world
from tests.oidc.flows.steps import copy_of, two_processes, user
from tests.oidc.flows.test_continued_sessions import SAME_USER, check, outcome
from tests.oidc.world import World, make_world, signed_in_world

Edit = Callable[[dict[str, Any]], dict[str, Any]]


def statuses(world: World) -> list[int | None]:
    """How the application responded to each logout token."""
    return [event.status for event in world.op.record.of(LogoutDelivered)]


def without(*names: str) -> Edit:
    return lambda said: {key: value for key, value in said.items() if key not in names}


def with_members(**members: Any) -> Edit:
    return lambda said: said | members


async def logged_out(world: World, edit: Edit | None = None) -> None:
    """The provider ends alice's sessions five seconds later."""
    if edit is not None:
        world.op.edits.put("logout_token", edit)
    world.time.advance(5)
    await world.op.log_out("alice")


@pytest.mark.parametrize("has_sid", [True, False])
async def test_sid_ends_that_session_and_sub_alone_all_sessions_of_the_user(
    world: World, has_sid: bool
) -> None:
    browsers = [await world.signed_in(), await world.signed_in(), await world.signed_in("bob")]
    await logged_out(world, with_members(sid=world.events[1].sid) if has_sid else without("sid"))
    other = "alice" if has_sid else None
    assert [await user(browser) for browser in browsers] == [None, other, "bob"]
    accepted = next(each for each in world.events if each.name == "back_channel_logout.accepted")
    assert (accepted.sub, accepted.sid) == ("alice", world.events[1].sid if has_sid else None)


@pytest.mark.parametrize("named", ["first", "second"])
async def test_logout_of_any_sid_that_a_session_had_ends_every_copy_of_its_cookie(
    mode: str, named: str
) -> None:
    """A silent login has confirmed the user with another session at the provider."""
    here, there = two_processes(mode)
    browser = await here.signed_in()
    copies = [copy_of(browser, world) for world in (here, there)]
    here.op.edits.put("id_token", with_members(sid="second"))
    here.time.advance(60)
    assert outcome(await check(browser)) == SAME_USER
    here.op.edits.clear()
    sid = "second" if named == "second" else here.events[1].sid
    await logged_out(here, with_members(sid=sid))
    assert statuses(here) == [200]
    assert [await user(each) for each in (*copies, browser)] == [None] * 3


async def test_logout_token_may_come_during_a_sign_out(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(1)
    answer = await browser.post("/auth/logout")
    assert answer.status_code == 200
    assert set(statuses(world)) == {200}


async def test_logout_token_without_exp_ends_the_session_where_a_setting_allows_it() -> None:
    world, browser = await signed_in_world(settings={"logout_token_without_exp": True})
    await logged_out(world, without("exp"))
    assert statuses(world) == [200]
    assert await user(browser) is None


@pytest.mark.parametrize("content", [b"", b"logout_token=a.b.c", b"logout_token=\xff"])
async def test_malformed_request_is_400_and_json(content: bytes) -> None:
    world, headers = make_world(), {"content-type": "application/x-www-form-urlencoded"}
    answer = await world.browser().post(
        "/auth/backchannel-logout", content=content, headers=headers
    )
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert answer.headers["cache-control"] == "no-store"
    assert world.event_names() == ["back_channel_logout.refused"]


async def test_store_that_is_down_is_400(mode: str) -> None:
    """The provider may deliver the token again."""
    world, outage = fallible_world(mode)
    browser = await world.signed_in()
    outage.is_down = True
    await logged_out(world)
    assert statuses(world) == [400]
    assert world.events[-1].code is Code.SESSION_STORE_UNAVAILABLE
    assert (await browser.get("/me")).status_code == 503, "and nobody is signed in meanwhile"


async def test_without_a_store_the_provider_is_refused_and_the_log_says_what_is_missing() -> None:
    world = make_world(back_channel_logout_store=None)
    assert (await world.browser().post("/auth/backchannel-logout")).status_code == 400
    assert world.events[-1].code is Code.CONFIGURATION_STORE_MISSING


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


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda query: query.pop("iss"), "logout_request.malformed"),
        (lambda query: query.pop("sid"), "logout_request.malformed"),
        *(
            (lambda query, sid=sid: query.update(sid=sid), "logout_request.malformed")
            for sid in ("", "s" * 256)
        ),
        (lambda query: query.update(sid=[query["sid"], "other"]), "logout_request.malformed"),
        (lambda query: query.update(iss=[ISSUER, ISSUER]), "logout_request.malformed"),
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


async def test_a_store_that_is_down_is_no_success() -> None:
    world, outage = fallible_world("cookie", settings={"front_channel_logout": True})
    outage.is_down = True
    assert (await framed(world, iss=ISSUER, sid="1")).status_code == 503


async def test_it_is_mounted_only_when_asked_for_and_needs_a_store() -> None:
    assert (await framed(make_world(), iss=ISSUER, sid="1")).status_code == 404
    with pytest.raises(ConfigurationError) as caught:
        world_of(back_channel_logout_store=None)
    assert caught.value.code is Code.CONFIGURATION_STORE_MISSING


async def test_a_tenants_user_is_signed_out() -> None:
    world, browser = await signed_in_world(
        settings={"front_channel_logout": True, "allowed_tenants": [TENANT]},
        provider={"issuer": SHARED, "users": [DevUser("alice", tenant=TENANT)]},
    )
    await framed(world, iss=f"https://op.test/{TENANT}/v2.0", sid=sid_of(world))
    assert await user(browser) is None
    assert "front_channel_logout.accepted" in world.event_names()
