"""An answer to a refresh that waits for the keys of the provider, or for another process."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from fastapi_oidc import Clock, MemoryRefreshLock, MemorySessionStore
from fastapi_oidc.flows.answers import UNVERIFIED
from fastapi_oidc.flows.decided import LONGEST_PAUSE
from fastapi_oidc.flows.shared import REMEMBERED
from fastapi_oidc.testing import ServerError
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.flows.test_refresh import LONG_AFTER, generation, refreshes
from tests.oidc.flows.test_resumed import AT_THE_END
from tests.oidc.interleaving import Held, another_process, begun, same_browser
from tests.oidc.world import Time, World, make_world


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
