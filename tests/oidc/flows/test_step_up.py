"""A step-up while other requests, here and in other processes, work on the same session."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from fastapi import Depends, FastAPI

from fastapi_oidc import OIDC, OIDCSession
from fastapi_oidc.testing import ServerError
from tests.oidc.flows.steps import AFTER_EXPIRY, callback_url, copy_of, two_processes, user
from tests.oidc.interleaving import Held, begun
from tests.oidc.world import World

STEP_UP = "/auth/login?max_age=60&return_to=/who"


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/who")
    async def who(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> list[object]:
        return [session.id, session.auth_time]


async def who(browser: httpx.AsyncClient) -> Any:
    return (await browser.get("/who")).json()


async def test_the_same_callback_at_two_processes_steps_up_once(mode: str) -> None:
    here, there = two_processes(mode, mount=mount)
    browser = await here.signed_in()
    before = await who(browser)
    here.time.advance(120)
    url = await callback_url(browser, STEP_UP)
    copy = copy_of(browser, there)
    answers = await asyncio.gather(browser.get(url), copy.get(url))
    first, second = [answer.json() for answer in answers]
    assert first == second
    assert first[0] != before[0]
    assert first[1] == before[1] + 120
    assert here.op.record.calls["token"] == 2


async def test_a_refresh_under_way_elsewhere_does_not_bring_the_old_session_back(mode: str) -> None:
    here, there = two_processes(mode, mount=mount)
    browser = await here.signed_in()
    before = await who(browser)
    here.time.advance(AFTER_EXPIRY)
    url = await callback_url(browser, STEP_UP)
    copy, held = copy_of(browser, there), Held(first=True)
    here.op.faults.put("token", held)
    refreshing = begun(copy.get("/who"))
    await held.gate.until_reached()
    assert (await browser.get(url)).json()[1] == before[1] + AFTER_EXPIRY
    held.gate.opened.set()
    assert (await refreshing).status_code == 401
    assert await user(copy) is None


async def test_a_provider_that_fails_leaves_the_session_as_it_was(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(120)
    url = await callback_url(browser, STEP_UP)
    world.op.faults.put("token", ServerError())
    assert (await browser.get(url)).status_code == 502
    assert await user(browser) == "alice"
