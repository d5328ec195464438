"""An application that ends while refreshes are under way; their refresh tokens are good once."""

from __future__ import annotations

import asyncio

import pytest

from fastapi_oidc.flows.turns import Turns
from tests.oidc.flows.test_refresh import LONG_AFTER, generation, refreshes
from tests.oidc.interleaving import Held, begun
from tests.oidc.world import World, make_world


@pytest.fixture
def world() -> World:
    return make_world(session_store="memory")


async def has_had_its_chance(closing: asyncio.Task[None]) -> bool:
    for _ in range(50):
        await asyncio.sleep(0)
    return closing.done()


async def test_a_refresh_that_was_sent_comes_to_its_end_first(world: World) -> None:
    browser, held = await world.signed_in(), Held(first=True)
    world.op.faults.put("token", held)
    world.time.advance(LONG_AFTER)
    request = begun(browser.get("/me"))
    await held.gate.until_reached()
    request.cancel()
    closing = asyncio.create_task(world.oidc.site.aclose())
    assert not await has_had_its_chance(closing)
    held.gate.opened.set()
    await closing
    assert await generation(browser) == 1
    assert refreshes(world) == 1


async def test_a_refresh_that_waits_for_its_turn_is_not_sent(world: World) -> None:
    first, second = await world.signed_in(), await world.signed_in("bob")
    world.oidc.site.refresher._turns = Turns(1)
    held = Held(first=True)
    world.op.faults.put("token", held)
    world.time.advance(LONG_AFTER)
    requests = [begun(browser.get("/me")) for browser in (first, second)]
    await held.gate.until_reached()
    closing = asyncio.create_task(world.oidc.site.aclose())
    assert not await has_had_its_chance(closing)
    held.gate.opened.set()
    await closing
    answers = await asyncio.gather(*requests)
    assert [answer.status_code for answer in answers] == [200, 503]
    assert "retry-after" in answers[1].headers
    assert refreshes(world) == 1
    assert await generation(second) == 1
