"""`idle_timeout`: a session is over when nobody asks for anything for that long."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from fastapi_oidc import (
    Clock,
    ConfigurationError,
    MemorySessionStore,
    OIDCSession,
)
from fastapi_oidc.flows.resume import living
from fastapi_oidc.testing import Lifetimes, ServerError
from tests.oidc.flows.test_refresh import generation
from tests.oidc.interleaving import Held
from tests.oidc.session.plain_stores import PlainSessionStore
from tests.oidc.world import Time, World, make_world

IDLE = 600


class Counting(MemorySessionStore[Any]):
    """Counts what is written after the login."""

    writes = 0

    async def replace(self, id: str, session: OIDCSession[Any], /) -> bool:
        self.writes += 1
        return await super().replace(id, session)

    async def touch(self, id: str, at: int, /) -> None:
        self.writes += 1
        await super().touch(id, at)


@pytest.fixture(params=[None, "memory"], ids=["cookie", "store"])
def world(request: pytest.FixtureRequest) -> World:
    return make_world(
        settings={"idle_timeout": IDLE, "refresh_margin": 0},
        session_store=request.param,
        lifetimes=None,
    )


async def test_without_a_request_the_session_is_over(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(IDLE)
    assert await generation(browser) is None
    assert "session.expired" in [event.code for event in world.events]


async def test_with_requests_it_goes_on(world: World) -> None:
    browser = await world.signed_in()
    for _ in range(10):
        world.time.advance(IDLE - 1)
        assert await generation(browser) is not None


async def test_a_request_shortly_after_another_counts_as_much(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(IDLE // 2)
    assert await generation(browser) is not None
    world.time.advance(IDLE // 10 - 1)
    assert await generation(browser) is not None
    world.time.advance(IDLE - IDLE // 10)
    assert await generation(browser) is not None, "off by a tenth at the most"


async def test_the_absolute_end_stays_where_it_is() -> None:
    world = make_world(settings={"idle_timeout": IDLE, "session_lifetime": 1000})
    browser = await world.signed_in()
    world.time.advance(IDLE - 1)
    assert await generation(browser) is not None
    world.time.advance(1000 - IDLE + 1)
    assert await generation(browser) is None


async def test_in_a_store_use_is_written_ten_times_in_a_timeout_at_most() -> None:
    time = Time()
    store = Counting(clock=Clock(read=time))
    world = make_world(time=time, settings={"idle_timeout": IDLE}, session_store=store)
    browser = await world.signed_in()
    for _ in range(100):
        time.advance(IDLE / 100)
        assert (await browser.get("/")).status_code == 200
    refreshes = world.event_names().count("session.refreshed")
    assert store.writes <= 10 + refreshes


async def test_in_a_cookie_use_is_written_no_more_often() -> None:
    world = make_world(settings={"idle_timeout": IDLE})
    browser = await world.signed_in()
    written = 0
    for _ in range(100):
        world.time.advance(2)
        answer: httpx.Response = await browser.get("/")
        written += "set-cookie" in answer.headers
    assert written <= 4


def test_a_store_that_cannot_remember_use_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="touch"):
        make_world(settings={"idle_timeout": IDLE}, session_store=PlainSessionStore())


async def test_requests_during_an_outage_of_the_provider_count(world: World) -> None:
    browser = await world.signed_in()
    world.op.faults.put("token", ServerError(), times=100)
    for _ in range(6):
        world.time.advance(IDLE - 100)
        await browser.get("/me")
    assert "session.refresh_postponed" in world.event_names()
    world.op.faults.clear()
    world.time.advance(61)
    assert await generation(browser) == 1


@pytest.mark.parametrize("store", [None, "memory"])
async def test_a_request_while_a_session_is_refreshed_for_others_counts(store: Any) -> None:
    world = make_world(
        settings={"idle_timeout": IDLE},
        session_store=store,
        lifetimes=Lifetimes(access_token=4000),
    )
    browser = await world.signed_in()
    site, held = world.oidc.site, Held()
    kept = await living(site.party, dict(browser.cookies))
    assert kept is not None
    world.op.faults.put("token", held)
    refreshing = asyncio.create_task(site.refresher.renew(kept))
    await held.gate.until_reached()
    world.time.advance(IDLE - 100)
    assert await generation(browser) == 0
    held.gate.opened.set()
    await refreshing
    world.time.advance(IDLE - 100)
    assert await generation(browser) == 1


async def test_a_session_that_was_idle_for_too_long_is_listed_no_more() -> None:
    world = make_world(settings={"idle_timeout": IDLE}, session_store="memory")
    await world.signed_in()
    assert len(await world.oidc.sessions_of("alice")) == 1
    world.time.advance(IDLE)
    assert await world.oidc.sessions_of("alice") == []


@pytest.mark.parametrize("store", [None, "memory"], ids=["cookie", "store"])
async def test_a_long_lived_connection_goes_on_while_its_browser_asks_for_pages(store: Any) -> None:
    """Also between two writes of use, when the browser has long shown the newest cookie."""
    idle, often = 3 * IDLE, 30
    lifetimes = Lifetimes(access_token=100 * IDLE)
    settings = {"idle_timeout": idle}
    world = make_world(settings=settings, session_store=store, lifetimes=lifetimes)
    browser = await world.signed_in()
    of_the_connection = dict(browser.cookies)
    for _ in range(2 * idle // often):
        world.time.advance(often)
        assert await generation(browser) == 0
        assert await living(world.oidc.site.party, of_the_connection) is not None
    world.time.advance(idle)
    assert await living(world.oidc.site.party, of_the_connection) is None
