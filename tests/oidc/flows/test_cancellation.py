"""A client that goes away at any await of its request: nothing is lost, and nothing done twice.

Each test cancels its request at the first point where it waits, then at the second, and so on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import OIDC, Clock
from tests.oidc.flows.steps import AFTER_EXPIRY, callback_url, generation, stores_of
from tests.oidc.interleaving import another_process
from tests.oidc.suspensions import (
    SuspendingNetwork,
    SuspendingStore,
    is_cancelled,
    others_have_ended,
    suspending,
)
from tests.oidc.world import BASE_URL, Time, World, make_world

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
