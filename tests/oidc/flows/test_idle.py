"""`idle_timeout`: a session is over when it was not used for that long, by any process."""

from typing import Any

import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import OIDC, Clock, MemoryStore
from fastapi_oidc.flows.refresh import refresh
from fastapi_oidc.flows.sessions import ANY_EPOCH, Live
from fastapi_oidc.session.session_cookie import Copy
from fastapi_oidc.session.store import Cell, Stored
from fastapi_oidc.testing import Lifetimes, OAuthError
from tests.oidc.flows.steps import (
    LOCAL,
    connected,
    copy_of,
    generation,
    stores_of,
    two_processes,
    with_connection,
)
from tests.oidc.interleaving import Held, another_process, begun
from tests.oidc.world import Time, World, make_world, signed_in_world

IDLE = 600
SETTINGS: dict[str, Any] = {
    "settings": {"idle_timeout": IDLE, "refresh_margin": 0},
    "lifetimes": Lifetimes(access_token=100 * IDLE),
}


@pytest.fixture
def world(mode: str) -> World:
    store = "memory" if mode == "store" else None
    return make_world(session_store=store, mount=with_pages, **SETTINGS)


@pytest.fixture
def processes(mode: str) -> tuple[World, World]:
    return two_processes(mode, mount=with_pages, **SETTINGS)


def with_pages(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    with_connection(app, oidc)

    @app.get("/refresh")
    async def refresh(request: Request) -> object:
        return {"generation": (await oidc.refresh(request)).generation}


async def test_unused_session_is_over(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(IDLE - 1)
    assert await generation(browser) == 0
    world.time.advance(IDLE)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["ended"]) == (401, "expired")


async def test_a_session_that_was_unused_stays_over_when_the_timeout_grows(
    processes: tuple[World, World], mode: str
) -> None:
    here, there = processes
    browser = await here.signed_in()
    patient = there.oidc.settings.model_copy(update={"idle_timeout": 10 * IDLE})
    store = here.oidc.registrations.engine.store
    later = another_process(here, settings=patient, mount=with_pages, **stores_of(mode, store))
    copy = copy_of(browser, later)
    here.time.advance(IDLE)
    assert await generation(browser) is None
    assert await generation(copy) is None
    if mode == "store":
        [session] = await later.oidc.sessions_of("alice")
        party = later.oidc.runtime.party
        live = await party.sessions.judge(Copy(session.id, (), ANY_EPOCH, 0))
        assert isinstance(live, Live)
        assert isinstance(await refresh(party, live), Live), "what a job may do lasts"
        assert await generation(copy) is None


async def test_used_session_goes_on_to_its_absolute_end() -> None:
    settings = {"idle_timeout": IDLE, "session_lifetime": 5 * IDLE}
    world, browser = await signed_in_world(settings=settings)
    for _ in range(5):
        world.time.advance(IDLE - 1)
        assert await generation(browser) is not None
    world.time.advance(5)
    assert await generation(browser) is None


async def test_request_shortly_after_another_counts_as_much(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(IDLE // 2)
    assert await generation(browser) == 0
    world.time.advance(IDLE // 10 - 1)
    assert await generation(browser) == 0
    world.time.advance(IDLE - IDLE // 10)
    assert await generation(browser) == 0, "off by a tenth at most"


async def test_store_is_written_ten_times_in_a_timeout_at_most(mode: str) -> None:
    class Counting(MemoryStore):
        writes = 0

        async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
            self.writes += before is not None
            return await super().swap(key, before, after)

    time = Time()
    store = Counting(clock=Clock(read=time))
    _, browser = await signed_in_world(time=time, **stores_of(mode, store), **SETTINGS)
    store.writes = 0
    for _ in range(60):
        time.advance(IDLE / 60)
        assert (await browser.get("/")).status_code == 200
    assert store.writes == 10


async def test_request_during_a_refresh_counts(world: World) -> None:
    browser, held = await world.signed_in(), Held()
    world.op.faults.put("token", held)
    refreshing = begun(copy_of(browser, world).get("/refresh"))
    await held.gate.until_reached()
    world.time.advance(IDLE - 100)
    assert await generation(browser) == 0
    held.gate.opened.set()
    await refreshing
    world.time.advance(IDLE - 100)
    assert await generation(browser) == 1


async def test_session_used_in_one_process_goes_on_in_the_other(
    processes: tuple[World, World],
) -> None:
    """For an open connection, and for a cookie whose response was lost."""
    here, there = processes
    browser = await here.signed_in()
    before = copy_of(browser, here)
    connection = await connected(here, copy_of(browser, here))
    used = copy_of(browser, there)
    for _ in range(3):
        here.time.advance(IDLE - 1)
        assert await generation(used) == 0
        assert await here.oidc.is_still_signed_in(connection)
    here.time.advance(IDLE - 1)
    assert await generation(before) == 0
    here.time.advance(IDLE)
    assert not await here.oidc.is_still_signed_in(connection)


@pytest.mark.parametrize("how", ["sign-out", "revocation", "refusal", "expiry"])
async def test_open_connection_learns_that_its_session_is_over(mode: str, how: str) -> None:
    here, there = two_processes(mode, mount=with_connection)
    browser = await here.signed_in()
    connection = await connected(there, copy_of(browser, there))
    oidc: OIDC[Any, Any] = there.oidc
    assert await oidc.is_still_signed_in(connection)
    if how == "sign-out":
        await browser.post("/auth/logout", data=LOCAL)
    elif how == "revocation":
        await here.oidc.revoke(sub="alice")
    elif how == "expiry":
        here.time.advance(8 * 3600)
    else:
        here.op.faults.put("token", OAuthError("invalid_grant"))
        here.time.advance(400)
        assert await generation(browser) is None
    assert not await oidc.is_still_signed_in(connection)
