"""Requests that are cancelled, and applications that shut down, lose no session."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.types import Receive, Scope, Send

from fastapi_oidc import OIDC, Clock
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.flows import relying_party
from fastapi_oidc.flows.callback import longest_login
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    callback_url,
    closed_by_a_job,
    generation,
    others_have_run,
    refreshes,
    stores_of,
)
from tests.oidc.interleaving import Gate, Held, another_process, begun
from tests.oidc.suspensions import (
    SuspendingNetwork,
    SuspendingStore,
    is_cancelled,
    others_have_ended,
    suspending,
)
from tests.oidc.world import BASE_URL, Time, World, make_world


async def test_shutdown_waits_for_a_code_that_was_sent(world: World) -> None:
    browser, held = world.browser(), Held(first=True)
    world.op.faults.put("token", held)
    url = await callback_url(browser)
    request = begun(browser.get(url))
    await held.gate.until_reached()
    request.cancel()
    closing = asyncio.create_task(world.oidc.aclose())
    await others_have_run()
    assert not closing.done()
    held.gate.opened.set()
    await closing
    assert (await browser.get(url)).json()["sub"] == "alice"
    assert world.op.record.calls["token"] == 1


@pytest.mark.parametrize("is_over", [False, True], ids=["in time", "too late"])
async def test_refresh_that_has_not_begun_is_not_sent(
    mode: str, is_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it waits for its turn, and also when the shutdown is over by then."""
    monkeypatch.setattr(relying_party, "CONCURRENT_REFRESHES", 1)
    world = make_world(session_store="memory" if mode == "store" else None)
    first, second = await world.signed_in(), await world.signed_in("bob")
    held = Held(first=True)
    world.op.faults.put("token", held)
    world.time.advance(AFTER_EXPIRY)
    requests = [begun(browser.get("/me")) for browser in (first, second)]
    await held.gate.until_reached()
    await others_have_run(500)
    if is_over:

        async def no_time(_tasks: object, _seconds: float) -> None:
            """As when the time for it is over."""

        monkeypatch.setattr(SingleFlight, "wait", no_time)
    closing = asyncio.create_task(world.oidc.aclose())
    await others_have_run()
    assert closing.done() is is_over
    held.gate.opened.set()
    await closing
    answers = await asyncio.gather(*requests)
    assert sorted(answer.status_code for answer in answers) == [200, 503]
    [refused] = [answer for answer in answers if answer.status_code == 503]
    assert "retry-after" in refused.headers
    assert refreshes(world) == 1
    world.time.advance(2)
    assert [await generation(browser) for browser in (first, second)] == [1, 1]


async def test_a_job_in_a_thread_that_ends_stops_no_refresh_of_the_application(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, gate = await world.signed_in(), Gate()
    party = world.oidc.runtime.party
    monkeypatch.setattr(party.provider, "prepare_refresh", gate.passed)
    world.time.advance(AFTER_EXPIRY)
    refreshing = begun(browser.get("/me"))
    await gate.until_reached()
    await closed_by_a_job(world)
    gate.opened.set()
    assert (await refreshing).json()["generation"] == 1


async def test_a_server_that_runs_no_lifespan_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing would wait for its refreshes at shutdown."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        await world.app({**scope, "state": {}}, receive, send)

    browser = world.op.browser(served, base_url=BASE_URL)
    for _ in range(2):
        await browser.get("/")
    [said] = [each for each in caplog.messages if "lifespan" in each]
    assert "\nCall at shutdown: await oidc.aclose()\n" in said


def test_a_shutdown_waits_as_long_as_a_callback_does() -> None:
    oidc = make_world(settings={"provider_timeout": 7, "callback_timeout": 3}).oidc
    assert oidc.registrations.engine.patience == longest_login(oidc.settings) == 17


FEWEST, MOST = 5, 400
"""How many points a request can have; without points a test would say nothing."""


@dataclass(slots=True)
class Place:
    """An application whose every step waits, and another process of it."""

    world: World
    other: World

    def browser(self, cookies: dict[str, str], *, elsewhere: bool = False) -> httpx.AsyncClient:
        world = self.other if elsewhere else self.world
        browser = world.op.browser(suspending(world.app), base_url=BASE_URL)
        browser.cookies.update(cookies)
        return browser

    @property
    def token_calls(self) -> int:
        return self.world.op.record.calls["token"]


@pytest.fixture
def place(mode: str) -> Place:
    time, network = Time(), SuspendingNetwork()
    stores = stores_of(mode, SuspendingStore(clock=Clock(read=time)))
    settings = {"session_lifetime": 30 * 24 * 3600}
    world = make_world(time=time, settings=settings, transport=network, mount=with_clear, **stores)
    network.inner = httpx.ASGITransport(world.op.app)
    return Place(world, another_process(world, **stores))


def with_clear(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.post("/clear")
    async def clear(request: Request) -> None:
        await asyncio.sleep(0)
        oidc.clear_session(request)
        await asyncio.sleep(0)

    @app.post("/clear-in-a-thread")
    def clear_in_a_thread(request: Request) -> None:
        oidc.clear_session(request)


async def cancelled_at_every_point(attempt: Callable[[int], Awaitable[bool]]) -> None:
    points = 1
    while await attempt(points):
        points += 1
    assert FEWEST < points < MOST


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
async def test_cancelled_request_leaves_its_refresh_to_the_next_one(
    place: Place, at_once: bool
) -> None:
    """Which comes to the same process while the refresh is under way, or to another one later."""
    cookies = dict((await place.world.signed_in()).cookies)
    generations = 0

    async def attempt(point: int) -> bool:
        nonlocal generations
        before, generations = place.token_calls, generations + 1
        place.world.time.advance(AFTER_EXPIRY)
        cancelled = await is_cancelled(place.browser(cookies).get("/me"), point)
        if not at_once:
            await others_have_ended()
        again = place.browser(cookies, elsewhere=not at_once)
        assert await generation(again) == generations, f"cancelled at {point}"
        assert place.token_calls == before + 1
        cookies.update({each.name: str(each.value) for each in again.cookies.jar if each.domain})
        return cancelled

    await cancelled_at_every_point(attempt)


async def test_cancelled_callback_is_completed_by_its_reload(place: Place) -> None:
    async def attempt(point: int) -> bool:
        leaving, before = place.world.browser(), place.token_calls
        callback = await callback_url(leaving)
        cookies = dict(leaving.cookies)
        request = place.browser(cookies).get(callback, follow_redirects=False)
        cancelled = await is_cancelled(request, point)
        again = place.browser(cookies, elsewhere=point % 2 == 0)
        answer = await again.get(callback, follow_redirects=False)
        assert answer.headers["location"] == "/me", f"cancelled at {point}"
        assert await generation(again) == 0
        assert place.token_calls == before + 1
        return cancelled

    await cancelled_at_every_point(attempt)


async def test_cancelled_clear_session_ends_the_session_everywhere_or_nowhere(place: Place) -> None:
    over: list[bool] = []

    async def attempt(point: int) -> bool:
        cookies = dict((await place.world.signed_in()).cookies)
        cancelled = await is_cancelled(place.browser(cookies).post("/clear"), point)
        await others_have_ended()
        copies = [place.browser(cookies, elsewhere=elsewhere) for elsewhere in (False, True)]
        here, elsewhere = [await generation(copy) is None for copy in copies]
        assert here == elsewhere, f"cancelled at {point}"
        over.append(here)
        return cancelled

    await cancelled_at_every_point(attempt)
    assert over == sorted(over), "from the first point after it was cleared"
    assert not over[0]
    assert over[-2], "although it was cancelled"


async def test_clear_session_in_a_thread_ends_the_session_everywhere(place: Place) -> None:
    cookies = dict((await place.world.signed_in()).cookies)
    await place.browser(cookies).post("/clear-in-a-thread")
    copies = [place.browser(cookies, elsewhere=elsewhere) for elsewhere in (False, True)]
    assert [await generation(copy) for copy in copies] == [None, None]
