"""Processes that share refresh records present each refresh token once, and lose no session.

A process that dies is one whose request to the provider or to the records never continues."""

import asyncio

import pytest

from fastapi_oidc.testing import OAuthError, ServerError
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    RETRY,
    copy_of,
    generation,
    refreshes,
    shared_stores,
)
from tests.oidc.interleaving import another_process
from tests.oidc.world import Time, World, make_world


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
