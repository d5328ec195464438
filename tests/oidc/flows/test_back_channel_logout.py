"""The provider ends sessions by a logout token (Back-Channel Logout 1.0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fastapi_oidc import Code, ConfigurationError
from fastapi_oidc.testing import LogoutDelivered
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.flows.steps import copy_of, two_processes, user
from tests.oidc.flows.test_silent_login import SAME_USER, check, outcome
from tests.oidc.world import Time, World, make_world

OURS, THEIRS = "11111111-aaaa-4444-8888-000000000000", "22222222-bbbb-4444-8888-000000000000"

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


async def test_later_login_of_the_same_user_is_not_affected(world: World) -> None:
    old = await world.signed_in()
    await logged_out(world, without("sid"))
    world.time.advance(5)
    new = await world.signed_in()
    assert [await user(browser) for browser in (old, new)] == [None, "alice"]


@pytest.mark.parametrize("has_sid", [True, False])
async def test_sid_ends_that_session_and_sub_alone_all_sessions_of_the_user(
    world: World, has_sid: bool
) -> None:
    browsers = [await world.signed_in(), await world.signed_in(), await world.signed_in("bob")]
    await logged_out(world, with_members(sid=world.events[1].sid) if has_sid else without("sid"))
    other = "alice" if has_sid else None
    assert [await user(browser) for browser in browsers] == [None, other, "bob"]


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
    world = make_world(settings={"logout_token_without_exp": True})
    browser = await world.signed_in()
    await logged_out(world, without("exp"))
    assert statuses(world) == [200]
    assert await user(browser) is None


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b"", "application/x-www-form-urlencoded"),
        (b"logout_token=a&logout_token=b", "application/x-www-form-urlencoded"),
        (b"logout_token=a.b.c", "application/x-www-form-urlencoded"),
        (b'{"logout_token": "a"}', "application/json"),
        (b"logout_token=" + b"x" * 70_000, "application/x-www-form-urlencoded"),
        (b"logout_token=\xff", "application/x-www-form-urlencoded"),
    ],
)
async def test_malformed_request_is_400_and_json(content: bytes, content_type: str) -> None:
    world = make_world()
    answer = await world.browser().post(
        "/auth/backchannel-logout", content=content, headers={"content-type": content_type}
    )
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert answer.headers["cache-control"] == "no-store"
    assert world.event_names() == ["back_channel_logout.refused"]


async def test_store_that_is_down_is_400(mode: str) -> None:
    """The provider may deliver the token again."""
    time = Time()
    outage, options = fallible(mode, time)
    world = make_world(time=time, **options)
    browser = await world.signed_in()
    outage.is_down = True
    await logged_out(world)
    assert statuses(world) == [400]
    assert world.events[-1].code is Code.SESSION_STORE_UNAVAILABLE
    assert (await browser.get("/me")).status_code == 503, "and nobody is signed in meanwhile"


async def test_there_is_no_such_route_without_a_store() -> None:
    world = make_world(back_channel_logout_store=None)
    assert (await world.browser().post("/auth/backchannel-logout")).status_code == 404
    with pytest.raises(ConfigurationError) as caught:
        world.oidc.back_channel_logout_handler()
    assert caught.value.code is Code.CONFIGURATION_STORE_MISSING
