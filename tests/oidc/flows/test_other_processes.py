"""What another process does to a session between two steps of this one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fastapi_oidc import Clock, MemoryRefreshLock, MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.testing import TokenRevoked
from tests.oidc.flows.test_refresh import LONG_AFTER, generation, refreshes
from tests.oidc.flows.test_silent_login import check, outcome
from tests.oidc.interleaving import Held, another_process, begun, same_browser
from tests.oidc.world import Time, World, make_world


def two_processes(*names: str) -> tuple[World, World]:
    """Two processes that share the stores and the lock with these names."""
    time = Time()
    clock = Clock(read=time)
    parts: dict[str, Any] = {
        "session_store": MemorySessionStore[Any](clock=clock),
        "back_channel_logout_store": MemoryRevocationStore(clock=clock),
        "refresh_lock": MemoryRefreshLock(clock=clock),
    }
    shared = {name: parts[name] for name in names}
    world = make_world(time=time, **shared)
    return world, another_process(world, **shared)


SHARED = pytest.mark.parametrize(
    "names",
    [
        ("back_channel_logout_store",),
        ("back_channel_logout_store", "refresh_lock"),
        ("session_store",),
        ("session_store", "refresh_lock"),
    ],
    ids=" and ".join,
)


@SHARED
async def test_a_sign_out_there_during_a_refresh_here_stays_a_sign_out(
    names: tuple[str, ...],
) -> None:
    here, there = two_processes(*names)
    browser = await here.signed_in()
    other_tab = same_browser(browser, there)
    held = Held(first=True)
    here.op.faults.put("token", held)
    here.time.advance(LONG_AFTER)
    late = begun(browser.get("/me"))
    await held.gate.until_reached()
    copied = dict(browser.cookies)
    await other_tab.post("/auth/logout", data={"local": "1"})
    held.gate.opened.set()
    assert "set-cookie" not in (await late).headers
    for later in (0, 300):
        here.time.advance(later)
        for world in (here, there):
            thief = world.browser()
            thief.cookies.update(copied)
            assert await generation(thief) is None, "the copy of the cookie is worthless"


@SHARED
async def test_a_sign_out_there_during_a_silent_check_here_stays_a_sign_out(
    names: tuple[str, ...],
) -> None:
    here, there = two_processes(*names)
    browser = await here.signed_in()
    held = Held(first=True)
    here.op.faults.put("token", held)
    late = begun(check(browser))
    await held.gate.until_reached()
    copied = dict(browser.cookies)
    await same_browser(browser, there).post("/auth/logout", data={"local": "1"})
    held.gate.opened.set()
    assert outcome(await late)[0] == "error"
    thief = there.browser()
    thief.cookies.update(copied)
    assert await generation(thief) is None


async def test_without_a_lock_the_refresh_that_was_refused_leaves_the_other_ones_row() -> None:
    here, there = two_processes("session_store")
    browser = await here.signed_in()
    other_tab = same_browser(browser, there)
    held = Held()
    here.op.faults.put("token", held)
    here.time.advance(LONG_AFTER)
    refused = begun(browser.get("/me"))
    await held.gate.until_reached()
    assert await generation(other_tab) == 1
    held.gate.opened.set()  # with the refresh token that the other one has used up
    answer = await refused
    assert (answer.status_code, answer.json()["generation"]) == (200, 1)


async def test_with_a_lock_two_processes_refresh_once() -> None:
    here, there = two_processes("refresh_lock")
    browser = await here.signed_in()
    tabs = [same_browser(browser, world) for world in (here, there)] * 20
    here.time.advance(LONG_AFTER)
    assert set(await asyncio.gather(*map(generation, tabs))) == {1}
    assert refreshes(here) == 1


async def test_a_cookie_that_was_lost_on_its_way_is_not_refreshed_again_in_the_other_process() -> (
    None
):
    here, there = two_processes("refresh_lock")
    browser = await here.signed_in()
    without_answer = here.browser()
    without_answer.cookies.update(dict(browser.cookies))
    here.time.advance(LONG_AFTER)
    assert await generation(without_answer) == 1
    here.time.advance(100)  # longer than the lock remembers the run
    assert await generation(same_browser(browser, there)) == 1
    assert refreshes(here) == 1


@pytest.mark.parametrize("shared", ["session_store", "back_channel_logout_store"])
async def test_the_tokens_of_a_refresh_that_came_too_late_are_given_back(shared: str) -> None:
    here, there = two_processes(shared)
    browser = await here.signed_in()
    held = Held(first=True)
    here.op.faults.put("token", held)
    here.time.advance(LONG_AFTER)
    late = begun(browser.get("/me"))
    await held.gate.until_reached()
    await same_browser(browser, there).post("/auth/logout", data={"local": "1"})
    before = len(here.op.record.of(TokenRevoked))
    held.gate.opened.set()
    await late
    assert len(here.op.record.of(TokenRevoked)) == before + 1
