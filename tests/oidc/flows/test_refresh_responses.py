"""A token response is stored until its session is. Processes present each refresh token once."""

import asyncio

import httpx
import pytest

from fastapi_oidc.flows.outcomes import LONGEST_BACKOFF
from fastapi_oidc.flows.token_sessions import UNVERIFIED_SECONDS
from fastapi_oidc.testing import OAuthError, ServerError
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    RETRY,
    copy_of,
    generation,
    refreshes,
    shared_stores,
)
from tests.oidc.interleaving import Held, another_process, begun
from tests.oidc.world import Time, World, make_world

BEHIND = 120


async def test_the_last_known_keys_serve_for_a_day_and_without_any_nothing_is_presented() -> None:
    world = make_world(settings={"session_lifetime": 4 * 24 * 3600})
    browser = await world.signed_in()
    world.op.faults.put("jwks", ServerError(), times=99)
    world.time.advance(2 * 3600)
    assert await generation(browser) == 1
    world.time.advance(23 * 3600)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
    assert refreshes(world) == 1
    world.op.faults.clear()
    world.time.advance(RETRY)
    assert await generation(browser) == 2


async def whose_response_waits_for_keys(world: World) -> httpx.AsyncClient:
    """A browser whose new ID token is signed with a key that cannot be had."""
    browser = await world.signed_in()
    world.time.advance(AFTER_EXPIRY)
    world.op.rotate_keys()
    world.op.faults.put("jwks", ServerError(), times=9)
    assert (await browser.get("/me")).status_code == 503
    world.op.faults.clear()
    return browser


async def test_response_waits_for_a_key_that_is_published_later(world: World) -> None:
    """OpenID Connect Core 10.1.1."""
    browser = await whose_response_waits_for_keys(world)
    world.time.advance(RETRY)
    assert await generation(browser) == 1
    assert refreshes(world) == 1


async def test_response_waits_until_a_slow_clock_has_come_to_its_time(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(AFTER_EXPIRY)
    world.op.edits.put("id_token", lambda said: said | {"iat": world.time.now + BEHIND})
    for seconds in (RETRY, BEHIND):
        answer = await browser.get("/me")
        assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
        world.time.advance(seconds)
    assert await generation(browser) == 1
    assert refreshes(world) == 1


async def test_another_process_continues_a_waiting_response(processes: tuple[World, World]) -> None:
    here, there = processes
    browser = await whose_response_waits_for_keys(here)
    assert await generation(copy_of(browser, there)) == 1
    assert refreshes(here) == 1


async def test_response_that_no_key_verifies_is_given_up_after_an_hour(world: World) -> None:
    browser, held = await world.signed_in(), Held(first=True)
    world.op.faults.put("token", held)
    world.time.advance(AFTER_EXPIRY)
    request = begun(browser.get("/me"))
    await held.gate.until_reached()
    world.op.rotate_keys()
    await world.signed_in("bob")
    held.gate.opened.set()
    assert (await request).status_code == 503
    calls = world.op.record.calls["token"]
    for _ in range(UNVERIFIED_SECONDS // LONGEST_BACKOFF - 1):
        world.time.advance(LONGEST_BACKOFF)
        assert (await browser.get("/me")).status_code == 503
    world.time.advance(LONGEST_BACKOFF)
    assert (await browser.get("/me")).status_code == 401
    assert world.op.record.calls["token"] == calls


def presented(world: World) -> int:
    """How many refresh tokens were presented; one code was exchanged."""
    return world.op.record.calls["token"] - 1


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["here", "in another process"])
@pytest.mark.parametrize("seconds", [0, 61, 11 * 60])
async def test_old_cookie_gets_the_newest_session_and_presents_no_used_token(
    processes: tuple[World, World], seconds: int, is_elsewhere: bool
) -> None:
    """Its browser lost the response of the refresh."""
    here, there = processes
    browser = await here.signed_in()
    lost = copy_of(browser, there if is_elsewhere else here)
    here.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1
    here.time.advance(seconds)
    newest = await generation(lost)
    assert newest == (1 if seconds < 300 else 2), "the token of the first refresh has expired"
    assert await generation(browser) == newest
    assert refreshes(here) == presented(here) == newest


async def test_invalid_grant_ends_the_session_everywhere_with_one_token_call(mode: str) -> None:
    time = Time()
    shared = shared_stores(mode, time)
    here = make_world(time=time, **shared)
    worlds = [here, *(another_process(here, **shared) for _ in range(3))]
    browser = await here.signed_in()
    here.op.faults.put("token", OAuthError("invalid_grant"), times=9)
    here.time.advance(AFTER_EXPIRY)
    tabs = [copy_of(browser, world) for world in worlds]
    assert await asyncio.gather(*map(generation, tabs)) == [None] * 4
    assert presented(here) == 1
    here.op.faults.clear()
    assert [await generation(copy_of(browser, world)) for world in worlds] == [None] * 4
    assert presented(here) == 1


async def test_old_cookie_does_not_end_a_session_whose_row_was_lost() -> None:
    """Redis restarted empty: its new row knows the generation of the session alone."""
    time = Time()
    before = make_world(time=time)
    browser = await before.signed_in()
    old = copy_of(browser, before)
    time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1
    after = another_process(before, **shared_stores("cookie", time))
    newest = copy_of(browser, after)
    time.advance(AFTER_EXPIRY)
    before.op.faults.put("token", ServerError(), times=9)
    assert await generation(newest) is None
    assert (await copy_of(old, after).get("/me")).status_code == 503
    before.op.faults.clear()
    time.advance(RETRY)
    assert await generation(newest) == 2
    assert await generation(copy_of(old, after)) == 2
