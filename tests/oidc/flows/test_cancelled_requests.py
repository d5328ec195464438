"""A client that goes away at any point where its request waits: nothing is lost, nothing is done
twice, and whoever comes again is answered as if nothing had happened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import OIDC, Clock
from fastapi_oidc.testing import TokenRevoked
from tests.oidc.flows.test_refresh import LONG_AFTER, generation
from tests.oidc.interleaving import another_process
from tests.oidc.suspensions import (
    SuspendingEndings,
    SuspendingLock,
    SuspendingNetwork,
    SuspendingSessions,
    is_cancelled,
    others_have_ended,
    suspending,
)
from tests.oidc.world import BASE_URL, Time, World, make_world

FEWEST, MOST = 5, 400
"""Points at which a request waits: that there are some is what makes these tests say anything."""

MODES = ["cookie", "store", "cookie and lock", "store and lock"]
AGAIN = pytest.mark.parametrize(
    ("mode", "elsewhere"),
    [(mode, False) for mode in MODES] + [(mode, True) for mode in MODES if "lock" in mode],
)
AT_ONCE = pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
"""Where sessions are, and whether the request that comes again comes to another process, and
while what was begun is still under way."""


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


def a_place(mode: str) -> Place:
    time = Time()
    clock = Clock(read=time)
    kept, _, lock = mode.partition(" and ")
    shared: dict[str, Any] = {"back_channel_logout_store": SuspendingEndings(clock=clock)}
    if kept == "store":
        shared["session_store"] = SuspendingSessions(clock=clock)
    if lock:
        shared["refresh_lock"] = SuspendingLock(clock=clock)
    network = SuspendingNetwork()
    world = make_world(time=time, transport=network, mount=with_forget_me, **shared)
    network.inner = httpx.ASGITransport(world.op.app)
    return Place(world, another_process(world, **shared))


def with_forget_me(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.post("/forget-me")
    async def forget_me(request: Request) -> None:
        await asyncio.sleep(0)
        oidc.clear_session(request)
        await asyncio.sleep(0)

    @app.post("/forget-me-in-a-thread")
    def forget_me_in_a_thread(request: Request) -> None:
        oidc.clear_session(request)


async def to_callback(browser: httpx.AsyncClient) -> str:
    """Where the provider sends the browser, which has not gone there."""
    url = "/auth/login?return_to=/me&login_hint=alice"
    for _ in range(2):
        answer = await browser.get(url, follow_redirects=False)
        url = answer.headers["location"]
    return url


async def cancelled_at_every_point(attempt: Callable[[int], Awaitable[bool]]) -> None:
    """`attempt` is made with the request cancelled at its first point, its second, and so on."""
    points = 1
    while await attempt(points):
        points += 1
    assert FEWEST < points < MOST


@pytest.fixture
def place(mode: str) -> Place:
    return a_place(mode)


@AT_ONCE
@AGAIN
async def test_a_refresh_whose_client_goes_away(
    place: Place, elsewhere: bool, at_once: bool
) -> None:
    async def attempt(point: int) -> bool:
        cookies = dict((await place.world.signed_in()).cookies)
        before = place.token_calls
        place.world.time.advance(LONG_AFTER)
        cancelled = await is_cancelled(place.browser(cookies).get("/me"), point)
        if not at_once:
            await others_have_ended()
        again = place.browser(cookies, elsewhere=elsewhere)
        assert await generation(again) == 1, f"cancelled at {point}"
        assert place.token_calls == before + 1
        place.world.time.advance(LONG_AFTER)
        assert await generation(again) == 2
        assert "session.ended" not in place.world.event_names()
        return cancelled

    await cancelled_at_every_point(attempt)


@AT_ONCE
@AGAIN
async def test_a_callback_whose_client_goes_away(
    place: Place, elsewhere: bool, at_once: bool
) -> None:
    async def attempt(point: int) -> bool:
        leaving, before = place.browser({}), place.token_calls
        callback = await to_callback(leaving)
        cookies = dict(leaving.cookies)
        cancelled = await is_cancelled(leaving.get(callback, follow_redirects=False), point)
        if not at_once:
            await others_have_ended()
        again = place.browser(cookies, elsewhere=elsewhere)
        page = await again.get(callback)
        assert page.json()["sub"] == "alice", f"cancelled at {point}"
        assert await generation(again) == 0
        assert place.token_calls == before + 1
        return cancelled

    await cancelled_at_every_point(attempt)


@pytest.mark.parametrize("mode", MODES)
async def test_a_sign_out_whose_client_goes_away(place: Place) -> None:
    """Whoever signs out again is signed out everywhere."""

    async def attempt(point: int) -> bool:
        cookies = dict((await place.world.signed_in()).cookies)
        before = place.world.op.record.of(TokenRevoked)
        leaving = place.browser(cookies).post("/auth/logout", data={"local": "1"})
        cancelled = await is_cancelled(leaving, point)
        await others_have_ended()
        again = place.browser(cookies)
        answer = await again.post("/auth/logout", data={"local": "1"}, follow_redirects=False)
        assert answer.is_redirect
        for elsewhere in (False, True):
            thief = place.browser(cookies, elsewhere=elsewhere)
            assert await generation(thief) is None, f"cancelled at {point}"
        await others_have_ended()
        assert len(place.world.op.record.of(TokenRevoked)) > len(before), f"cancelled at {point}"
        return cancelled

    await cancelled_at_every_point(attempt)


@pytest.mark.parametrize("mode", MODES)
async def test_a_session_that_is_cleared_for_a_client_that_goes_away(place: Place) -> None:
    """It is over everywhere, or nowhere yet."""
    over: list[bool] = []

    async def attempt(point: int) -> bool:
        cookies = dict((await place.world.signed_in()).cookies)
        cancelled = await is_cancelled(place.browser(cookies).post("/forget-me"), point)
        await others_have_ended()
        here, elsewhere = [
            await generation(place.browser(cookies, elsewhere=elsewhere)) is None
            for elsewhere in (False, True)
        ]
        assert here == elsewhere, f"cancelled at {point}"
        over.append(here)
        return cancelled

    await cancelled_at_every_point(attempt)
    assert over == sorted(over), "from the first point after it was cleared"
    assert over[0] is False
    assert over[-2] is True, "although it was cancelled"


@pytest.mark.parametrize("mode", MODES)
async def test_a_thread_clears_a_session_everywhere_with_the_answer(place: Place) -> None:
    cookies = dict((await place.world.signed_in()).cookies)
    await place.browser(cookies).post("/forget-me-in-a-thread")
    for elsewhere in (False, True):
        assert await generation(place.browser(cookies, elsewhere=elsewhere)) is None
