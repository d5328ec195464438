"""`idle_timeout` with sessions in cookies that several processes see."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request

from fastapi_oidc import (
    OIDC,
    Clock,
    MemoryRefreshLock,
)
from fastapi_oidc.flows.resume import living
from fastapi_oidc.testing import Lifetimes
from tests.oidc.flows.test_refresh import generation
from tests.oidc.interleaving import Gate, another_process, begun, same_browser
from tests.oidc.world import Time, World, make_world

IDLE = 600


def two_processes(lock: type[MemoryRefreshLock] = MemoryRefreshLock) -> tuple[World, World]:
    """Of an application with sessions in cookies and a shared lock."""
    time = Time()
    shared: dict[str, Any] = {"refresh_lock": lock(clock=Clock(read=time)), "mount": with_renew}
    lifetimes = Lifetimes(access_token=100 * IDLE)
    world = make_world(settings={"idle_timeout": IDLE}, time=time, lifetimes=lifetimes, **shared)
    return world, another_process(world, **shared)


def with_renew(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/renew")
    async def renew(request: Request) -> object:
        return {"generation": (await oidc.refresh(request)).generation}


class SlowToKeep(MemoryRefreshLock):
    """Keeps nothing before the gate is opened, once one was set."""

    gate: Gate | None = None

    async def keep(self, name: str, data: bytes, seconds: int, /) -> None:  # type: ignore[override]
        gate, self.gate = self.gate, None
        if gate is not None:
            await gate.passed()
        super().keep(name, data, seconds)


async def test_a_long_lived_connection_goes_on_while_another_process_is_used() -> None:
    here, there = two_processes()
    browser = await here.signed_in()
    of_the_connection = dict(browser.cookies)
    for _ in range(3):
        here.time.advance(IDLE - 1)
        assert await generation(same_browser(browser, there)) == 0
    assert await living(here.oidc.site.party, of_the_connection) is not None
    here.time.advance(IDLE)
    assert await living(here.oidc.site.party, of_the_connection) is None


async def test_a_cookie_that_was_lost_on_its_way_does_not_make_a_session_idle() -> None:
    here, there = two_processes()
    browser = await here.signed_in()
    before = dict(browser.cookies)
    here.time.advance(IDLE - 1)
    assert await generation(same_browser(browser, there)) == 0
    here.time.advance(IDLE - 1)
    browser.cookies.update(before)
    assert await generation(browser) == 0


async def test_a_session_whose_time_is_over_is_over_whatever_another_process_saw() -> None:
    here, there = two_processes()
    browser = await here.signed_in()
    found = await living(here.oidc.site.party, dict(browser.cookies))
    assert found is not None
    lifetime = found.session.expires_at - int(here.time.now)
    for _ in range(lifetime // (IDLE - 1)):
        here.time.advance(IDLE - 1)
        assert await generation(same_browser(browser, there)) == 0
    here.time.advance(lifetime % (IDLE - 1))
    assert await generation(browser) is None


async def test_a_use_seen_with_an_old_cookie_does_not_bring_back_its_generation() -> None:
    here, there = two_processes()
    browser, late = await here.signed_in(), there.browser()
    late.cookies.update(dict(browser.cookies))
    here.time.advance(IDLE / 5)
    assert (await browser.get("/renew")).json()["generation"] == 1
    assert await generation(late) == 0
    assert await generation(late) == 1, "by the cookie of that answer"


async def test_a_use_that_is_written_while_another_process_refreshes_takes_nothing_back() -> None:
    here, there = two_processes(SlowToKeep)
    browser, late, gate = await here.signed_in(), there.browser(), Gate()
    late.cookies.update(dict(browser.cookies))
    here.time.advance(IDLE / 5)
    lock_of(there).gate = gate
    request = begun(late.get("/me"))
    await gate.until_reached()
    assert (await browser.get("/renew")).json()["generation"] == 1
    gate.opened.set()
    assert (await request).json()["generation"] == 0
    here.time.advance(IDLE - 1)
    assert await generation(late) == 1, "neither idle nor of the generation before"


def lock_of(world: World) -> SlowToKeep:
    shared = world.oidc.site.party.shared
    assert shared is not None
    lock = shared._lock
    assert isinstance(lock, SlowToKeep)
    return lock
