"""Whether the session of a long-lived connection goes on, which nothing is refreshed for."""

from __future__ import annotations

from typing import Any

import httpx

from fastapi_oidc import Clock, MemoryRefreshLock
from fastapi_oidc.flows.resume import living
from fastapi_oidc.testing import Lifetimes
from tests.oidc.flows.test_refresh import generation
from tests.oidc.interleaving import another_process, same_browser
from tests.oidc.world import Time, World, make_world

IDLE = 300
"""Less than the ten minutes for which processes tell each other of a session."""


async def goes_on(world: World, browser: httpx.AsyncClient) -> bool:
    return await living(world.oidc.site.party, dict(browser.cookies)) is not None


async def test_to_its_own_end() -> None:
    world = make_world(settings={"session_lifetime": 600})
    browser = await world.signed_in()
    world.time.advance(599)
    assert await goes_on(world, browser)
    world.time.advance(1)
    assert not await goes_on(world, browser)


async def test_until_it_ends_in_this_process() -> None:
    world = make_world(back_channel_logout_store=None)
    browser = await world.signed_in()
    found = await world.oidc.site.party.keeper.read(dict(browser.cookies))
    assert found is not None
    session = found.kept.session
    world.oidc.site.party.register.end(session.id, "signed_out", ends=session.expires_at)
    assert not await goes_on(world, browser)


async def test_until_a_record_ends_it() -> None:
    world = make_world()
    browser = await world.signed_in()
    await world.oidc.revoke(sub="alice")
    assert not await goes_on(world, browser)


async def test_until_it_was_idle_in_every_process() -> None:
    time = Time()
    shared: dict[str, Any] = {"refresh_lock": MemoryRefreshLock(clock=Clock(read=time))}
    lifetimes = Lifetimes(access_token=100 * IDLE)
    here = make_world(settings={"idle_timeout": IDLE}, time=time, lifetimes=lifetimes, **shared)
    there = another_process(here, **shared)
    browser = await here.signed_in()
    connection = here.browser()
    connection.cookies.update(dict(browser.cookies))
    time.advance(IDLE - 1)
    assert await generation(same_browser(browser, there)) == 0
    time.advance(IDLE - 1)
    assert await goes_on(here, connection)
    time.advance(1)
    assert not await goes_on(here, connection)
