"""An outage between two steps of a refresh costs nobody a session, and no refresh token twice."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import httpx
import pytest

from fastapi_oidc import Clock, MemoryRefreshLock, MemorySessionStore
from fastapi_oidc.flows.answers import UNVERIFIED
from fastapi_oidc.flows.decided import LONGEST_PAUSE
from fastapi_oidc.flows.shared import REMEMBERED
from fastapi_oidc.testing import OAuthError, ServerError
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.flows.test_refresh import LONG_AFTER, generation, refreshes
from tests.oidc.flows.test_resumed import AT_THE_END
from tests.oidc.interleaving import Held, another_process, begun, same_browser
from tests.oidc.world import Time, World, make_world

TWO_HOURS = 7200
AFTER_ONE_PAUSE = 10
BEHIND = 120


@pytest.fixture(params=[None, "memory"], ids=["cookie", "store"])
def world(request: pytest.FixtureRequest) -> World:
    return make_world(session_store=request.param)


async def test_keys_that_cannot_be_had_are_the_last_known_ones(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(TWO_HOURS)
    world.op.faults.put("jwks", ServerError(), times=9)
    assert await generation(browser) == 1
    assert refreshes(world) == 1


async def test_without_any_keys_the_refresh_token_is_not_presented() -> None:
    world = make_world(settings={"session_lifetime": 4 * 24 * 3600})
    browser = await world.signed_in()
    world.time.advance(25 * 3600)
    world.op.faults.put("jwks", ServerError(), times=99)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
    assert refreshes(world) == 0
    world.op.faults.clear()
    world.time.advance(AFTER_ONE_PAUSE)
    assert await generation(browser) == 1


async def test_a_key_that_is_published_later_ends_no_session(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    world.op.rotate_keys()
    world.op.faults.put("jwks", ServerError(), times=9)
    answer = await browser.get("/me")
    assert answer.status_code == 503
    world.op.faults.clear()
    world.time.advance(AFTER_ONE_PAUSE)
    assert await generation(browser) == 1
    assert refreshes(world) == 1, "the answer was kept"


async def test_an_answer_that_was_verified_outlives_its_key() -> None:
    time = Time()
    store, options = fallible("store", time)
    world = make_world(time=time, **options)
    browser = await world.signed_in()
    time.advance(LONG_AFTER)
    store.is_down, store.failing = True, frozenset({"replace"})
    assert (await browser.get("/me")).status_code == 503
    store.is_down = False
    world.op.rotate_keys()
    await world.signed_in("bob")  # the keys are read again
    assert await generation(browser) == 1
    assert refreshes(world) == 1


@pytest.mark.parametrize("is_shared", [False, True], ids=["no lock", "lock"])
async def test_an_answer_that_no_key_verifies_for_an_hour_is_given_up(is_shared: bool) -> None:
    time = Time()
    lock = MemoryRefreshLock(clock=Clock(read=time)) if is_shared else None
    kept_for_longer = {"idle_timeout": 2 * UNVERIFIED}
    world = make_world(time=time, refresh_lock=lock, settings=kept_for_longer)
    browser, held = await world.signed_in(), Held(first=True)
    world.op.faults.put("token", held)
    world.time.advance(LONG_AFTER)
    request = begun(browser.get("/me"))
    await held.gate.until_reached()
    world.op.rotate_keys()
    await world.signed_in("bob")
    held.gate.opened.set()
    assert (await request).status_code == 503
    calls = world.op.record.calls["token"]
    for _ in range(UNVERIFIED // LONGEST_PAUSE):
        world.time.advance(LONGEST_PAUSE)
        assert (await browser.get("/me")).status_code == 503
        assert world.op.record.calls["token"] == calls
    world.time.advance(LONGEST_PAUSE)
    assert await generation(browser) is None, "its refresh token is used up"
    assert world.op.record.calls["token"] == calls + 1


async def whose_answer_waits_for_keys(world: World, seconds: int = LONG_AFTER) -> httpx.AsyncClient:
    """A browser whose refresh was answered, by a key that could not be had until the end of the new
    access token or later."""
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    world.op.rotate_keys()
    world.op.faults.put("jwks", ServerError(), times=9)
    assert (await browser.get("/me")).status_code == 503
    world.op.faults.clear()
    world.time.advance(seconds)
    return browser


@pytest.mark.parametrize("seconds", [AT_THE_END, LONG_AFTER])
async def test_no_access_token_is_handed_out_that_ended_while_its_answer_was_kept(
    world: World, seconds: int
) -> None:
    browser = await whose_answer_waits_for_keys(world, seconds)
    assert await generation(browser) == 2
    assert refreshes(world) == 2


async def test_what_came_of_such_an_answer_is_kept_if_no_other_can_be_had() -> None:
    world = make_world()
    browser = await whose_answer_waits_for_keys(world)
    world.op.faults.put("token", ServerError())
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")

    other = another_process(world).browser()
    other.cookies.update(dict(browser.cookies))
    assert await generation(other) == 2, "the first refresh token is used up"


async def test_an_id_token_of_a_time_to_come_ends_no_session(world: World) -> None:
    """This clock is behind the provider's; the same answer is taken when that time has come."""
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    world.op.edits.put("id_token", lambda said: said | {"iat": world.time.now + BEHIND})
    for seconds in (AFTER_ONE_PAUSE, BEHIND):
        answer = await browser.get("/me")
        assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
        world.time.advance(seconds)
    assert await generation(browser) == 1
    assert refreshes(world) == 1, "the answer was kept"


async def test_an_id_token_without_its_time_ends_the_session(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    world.op.edits.put("id_token", lambda said: said | {"iat": "now"})
    assert (await browser.get("/me")).status_code == 401


async def test_another_process_goes_on_from_the_answer_of_one_that_died() -> None:
    time = Time()
    shared: dict[str, Any] = {"refresh_lock": MemoryRefreshLock(clock=Clock(read=time))}
    world = make_world(time=time, **shared)
    browser = await world.signed_in()
    cookies = dict(browser.cookies)
    world.time.advance(LONG_AFTER)
    world.op.rotate_keys()
    world.op.faults.put("jwks", ServerError(), times=9)
    assert (await browser.get("/me")).status_code == 503
    world.op.faults.clear()

    other = another_process(world, **shared).browser()
    other.cookies.update(cookies)
    assert await generation(other) == 1
    assert refreshes(world) == 1


@pytest.mark.parametrize("store", [None, MemorySessionStore], ids=["cookie", "store"])
async def test_another_process_goes_on_from_an_answer_however_long_it_waits(store: Any) -> None:
    time = Time()
    clock = Clock(read=time)
    shared: dict[str, Any] = {
        "refresh_lock": MemoryRefreshLock(clock=clock),
        "session_store": store and store(clock=clock),
    }
    here = make_world(time=time, **shared)
    there = another_process(here, **shared)
    browser = await here.signed_in()
    await there.signed_in("bob")
    time.advance(LONG_AFTER)
    here.op.rotate_keys()
    here.op.faults.put("jwks", ServerError(), times=9)
    assert (await browser.get("/me")).status_code == 503
    calls = here.op.record.calls["token"]
    time.advance(REMEMBERED)
    assert (await same_browser(browser, there).get("/me")).status_code == 503
    assert here.op.record.calls["token"] == calls
    here.op.faults.clear()
    time.advance(LONGEST_PAUSE)
    assert await generation(same_browser(browser, there)) is not None


async def test_a_request_that_stops_waiting_does_not_stop_the_refresh(world: World) -> None:
    browser = await world.signed_in()
    held = Held(first=True)
    world.op.faults.put("token", held)
    world.time.advance(LONG_AFTER)
    impatient = begun(browser.get("/me"))
    await held.gate.until_reached()
    impatient.cancel()
    await asyncio.wait([impatient])
    held.gate.opened.set()
    assert await generation(browser) == 1
    assert refreshes(world) == 1


async def test_pauses_grow_to_a_minute_and_stay_there() -> None:
    world = make_world()
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    world.op.faults.put("token", ServerError(), times=99)
    attempts = []
    for _ in range(400):
        calls = world.op.record.calls["token"]
        await browser.get("/me")
        if world.op.record.calls["token"] > calls:
            attempts.append(world.time.now)
        world.time.advance(1)
    pauses = [after - before for before, after in pairwise(attempts)]
    assert pauses[:7] == [5, 10, 20, 40, 60, 60, 60]


@pytest.mark.parametrize("error", ["invalid_client", "unauthorized_client", "server_error"])
async def test_a_client_that_is_refused_signs_nobody_out(world: World, error: str) -> None:
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    world.op.faults.put("token", OAuthError(error))
    assert (await browser.get("/me")).status_code == 503
    world.time.advance(AFTER_ONE_PAUSE)
    assert await generation(browser) == 1


async def test_public_pages_stay_open_while_a_session_cannot_be_renewed(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    world.op.faults.put("token", ServerError(), times=9)
    assert (await browser.get("/")).json() == {"is_authenticated": False}


async def test_without_expires_in_a_session_is_refreshed_after_the_default_lifetime() -> None:
    world = make_world(settings={"default_access_token_lifetime": 600})
    world.op.edits.put("token_response", lambda said: said | {"expires_in": None})
    browser = await world.signed_in()
    world.op.edits.clear()
    world.time.advance(500)
    assert await generation(browser) == 0
    world.time.advance(100)
    assert await generation(browser) == 1


async def test_an_access_token_that_is_over_at_birth_is_not_refreshed_by_every_request() -> None:
    world = make_world()
    world.op.edits.put("token_response", lambda said: said | {"expires_in": 0})
    browser = await world.signed_in()
    for _ in range(3):
        assert await generation(browser) == 0
