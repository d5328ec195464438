"""A slow answer that carries a session cookie, and what happened to the session meanwhile.

Each test holds the answer of `/slow` back, whose request has refreshed the session, and lets
something else happen in the same browser.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from fastapi_oidc import Clock, MemoryRefreshLock, MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.testing import sign_in
from tests.oidc.flows.test_refresh import LONG_AFTER, generation
from tests.oidc.interleaving import Gate, another_process, begun, same_browser, with_gate
from tests.oidc.world import LOGIN_URL, Time, World, make_world

EIGHT_HOURS = 8 * 3600
AS_SOMEBODY_ELSE = f"{LOGIN_URL}&prompt=login"


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture(params=["cookie", "store"])
def shared(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What two processes share."""
    time = Time()
    clock = Clock(read=time)
    stores: dict[str, Any] = {
        "time": time,
        "back_channel_logout_store": MemoryRevocationStore(clock=clock),
        "refresh_lock": MemoryRefreshLock(clock=clock),
    }
    if request.param == "store":
        stores["session_store"] = MemorySessionStore[Any](clock=clock)
    return stores


@pytest.fixture(params=["one process", "two processes"])
def worlds(
    request: pytest.FixtureRequest, gate: Gate, shared: dict[str, Any]
) -> tuple[World, World]:
    """Where the slow answer is made, and where everything else happens."""
    slow = make_world(mount=with_gate(gate), **shared)
    if request.param == "one process":
        return slow, slow
    del shared["time"]
    return slow, another_process(slow, **shared)


async def a_late_answer(
    worlds: tuple[World, World], gate: Gate
) -> tuple[httpx.AsyncClient, httpx.AsyncClient, asyncio.Task[httpx.Response]]:
    """Two tabs of one browser, and the answer that the first one waits for; it has refreshed."""
    here, there = worlds
    browser = await here.signed_in()
    here.time.advance(LONG_AFTER)
    late = begun(browser.get("/slow"))
    await gate.until_reached()
    return browser, same_browser(browser, there), late


async def arrived(gate: Gate, late: asyncio.Task[httpx.Response]) -> httpx.Response:
    gate.opened.set()
    return await late


async def user(browser: httpx.AsyncClient) -> Any:
    answer = await browser.get("/me")
    return answer.json()["sub"] if answer.status_code == 200 else None


async def test_after_a_sign_out_it_signs_nobody_in(worlds: tuple[World, World], gate: Gate) -> None:
    browser, other_tab, late = await a_late_answer(worlds, gate)
    await other_tab.post("/auth/logout", data={"local": "1"})
    answer = await arrived(gate, late)
    assert "set-cookie" not in answer.headers
    assert await user(browser) is None
    worlds[0].time.advance(300)
    assert await user(other_tab) is None


async def test_after_another_user_signed_in_it_leaves_that_user_alone(
    worlds: tuple[World, World], gate: Gate
) -> None:
    browser, other_tab, late = await a_late_answer(worlds, gate)
    await sign_in(other_tab, AS_SOMEBODY_ELSE, user="bob")
    answer = await arrived(gate, late)
    assert "set-cookie" not in answer.headers
    assert await user(browser) == "bob"


async def test_after_another_refresh_it_does_not_go_back_a_generation(
    worlds: tuple[World, World], gate: Gate
) -> None:
    browser, other_tab, late = await a_late_answer(worlds, gate)
    assert await generation(other_tab) == 1
    worlds[0].time.advance(LONG_AFTER)
    assert await generation(other_tab) == 2
    await arrived(gate, late)
    worlds[0].time.advance(100)
    assert await generation(browser) == 2


async def test_of_an_expired_session_it_leaves_a_new_login_alone(
    worlds: tuple[World, World], gate: Gate
) -> None:
    here, there = worlds
    browser = await here.signed_in()
    here.time.advance(EIGHT_HOURS)
    late = begun(browser.get("/slow"))
    await gate.until_reached()
    other_tab = same_browser(browser, there)
    await sign_in(other_tab, AS_SOMEBODY_ELSE, user="bob")
    answer = await arrived(gate, late)
    assert "set-cookie" not in answer.headers
    assert await user(browser) == "bob"


async def test_its_cookie_is_not_lost_with_it(worlds: tuple[World, World], gate: Gate) -> None:
    browser, _, late = await a_late_answer(worlds, gate)
    late.cancel()
    await asyncio.wait([late])
    worlds[0].time.advance(200)
    assert await generation(browser) == 1, "remembered until the browser has it"
