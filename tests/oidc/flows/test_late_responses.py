"""The session cookie is decided when a response is sent, not when its request came.

The response of `/slow` is held back, whose request has refreshed the session, and something else
happens in the same browser meanwhile.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx
import pytest

from fastapi_oidc.testing import OAuthError, sign_in
from tests.oidc.flows.fallible_stores import fallible_world
from tests.oidc.flows.steps import AFTER_EXPIRY, LOCAL, generation, two_processes, user
from tests.oidc.interleaving import Gate, begun, same_browser, with_gate
from tests.oidc.world import LOGIN_URL, World

EIGHT_HOURS = 8 * 3600
AS_BOB = f"{LOGIN_URL}&prompt=login"


@dataclass(slots=True)
class Late:
    """Two tabs of one browser, and the response that the first one waits for."""

    world: World
    tab: httpx.AsyncClient
    other_tab: httpx.AsyncClient
    gate: Gate
    request: asyncio.Task[httpx.Response]

    async def arrives(self) -> httpx.Response:
        self.gate.opened.set()
        return await self.request


async def a_late_response(here: World, there: World, gate: Gate, seconds: int) -> Late:
    browser = await here.signed_in()
    here.time.advance(seconds)
    request = begun(browser.get("/slow"))
    await gate.until_reached()
    return Late(here, browser, same_browser(browser, there), gate, request)


@pytest.fixture(params=["one process", "two processes"])
def worlds(request: pytest.FixtureRequest, mode: str) -> tuple[World, World, Gate]:
    """Where the slow response is made, and where everything else happens."""
    gate = Gate()
    here, there = two_processes(mode, mount=with_gate(gate))
    return here, (here if request.param == "one process" else there), gate


@pytest.fixture
async def late(worlds: tuple[World, World, Gate]) -> Late:
    """A response whose request has refreshed the session."""
    return await a_late_response(*worlds, AFTER_EXPIRY)


async def test_response_after_a_sign_out_sets_no_cookie(late: Late) -> None:
    await late.other_tab.post("/auth/logout", data=LOCAL)
    assert "set-cookie" not in (await late.arrives()).headers
    assert await user(late.tab) is None
    late.world.time.advance(300)
    assert await user(late.other_tab) is None


async def test_response_after_a_login_of_another_user_sets_no_cookie(late: Late) -> None:
    await sign_in(late.other_tab, AS_BOB, user="bob")
    assert "set-cookie" not in (await late.arrives()).headers
    assert await user(late.tab) == "bob"


async def test_response_after_a_later_refresh_brings_the_newest_session(late: Late) -> None:
    late.world.time.advance(AFTER_EXPIRY)
    assert await generation(late.other_tab) == 2
    await late.arrives()
    late.world.time.advance(100)
    assert await generation(late.tab) == 2


async def test_response_after_a_refused_refresh_sets_no_cookie(late: Late) -> None:
    late.world.op.faults.put("token", OAuthError("invalid_grant"))
    late.world.time.advance(AFTER_EXPIRY)
    assert await generation(late.other_tab) is None
    answer = await late.arrives()
    assert "set-cookie" not in answer.headers or "Max-Age=0" in answer.headers["set-cookie"]
    assert await user(late.tab) is None


async def test_response_of_an_expired_session_leaves_a_new_login_alone(
    worlds: tuple[World, World, Gate],
) -> None:
    late = await a_late_response(*worlds, EIGHT_HOURS)
    await sign_in(late.other_tab, AS_BOB, user="bob")
    assert "set-cookie" not in (await late.arrives()).headers
    assert await user(late.tab) == "bob"


async def test_cookie_is_left_alone_while_a_store_cannot_tell(mode: str) -> None:
    """The session is refreshed, and its next request finds the newest one."""
    gate = Gate()
    world, outage = fallible_world(mode, mount=with_gate(gate))
    late = await a_late_response(world, world, gate, AFTER_EXPIRY)
    outage.is_down = True
    answer = await late.arrives()
    assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)
    outage.is_down = False
    assert await generation(late.tab) == 1
    names = world.event_names()
    assert ("session.cookie_withheld" in names) is (mode == "cookie"), "a reference stays the same"
