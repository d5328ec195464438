"""A step-up while other requests, here and in other processes, work on the same session."""

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI

from fastapi_oidc import OIDC, OIDCSession, PersistContext
from tests.oidc.flows.fallible_stores import fallible_world
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LOCAL,
    callback_url,
    copy_of,
    generation,
    signed_out,
    two_processes,
    until,
    user,
)
from tests.oidc.interleaving import Gate, Held, begun

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
    assert first == second == [before[0], before[1] + 120]
    assert here.op.record.calls["token"] == 2


async def test_copies_of_the_cookie_from_before_are_refused_and_end_nothing(mode: str) -> None:
    """Somebody else may have one; it signs nobody out, and is no end of its session."""
    here, there = two_processes(mode, mount=mount)
    browser = await here.signed_in()
    copy, *copies = [copy_of(browser, world) for world in (there, here, there)]
    await browser.get(await callback_url(browser, STEP_UP))
    assert here.event_names()[2:5] == ["login.started", "session.refreshed", "login.succeeded"]
    assert [await user(each) for each in (*copies, browser)] == [None, None, "alice"]
    await signed_out(copy_of(copy, there), **LOCAL)
    await copy.get(await callback_url(copy))
    assert [await user(each) for each in (browser, copy)] == ["alice", "alice"]
    assert "session.ended" not in here.event_names()
    await here.oidc.revoke(sub="alice")
    assert await user(browser) is None
    assert here.event_names().count("session.ended") == 1


@pytest.mark.parametrize("moment", ["afterwards", "meanwhile"])
async def test_a_step_up_in_another_tab_continues_the_session_too(mode: str, moment: str) -> None:
    """Its login began with the cookie from before the first step-up.

    If that has no response yet, it brings the same session.
    """
    gate = Gate()

    async def persist(context: PersistContext[Any]) -> None:
        if context.reason == "refresh" and moment == "meanwhile":
            await gate.passed()

    here, there = two_processes(mode, mount=mount, before_session_persist=persist)
    browser = await here.signed_in()
    [id, _], tab = await who(browser), copy_of(browser, there)
    here.time.advance(120)
    urls = [await callback_url(each, STEP_UP) for each in (browser, tab)]
    first = begun(browser.get(urls[0]))
    await (gate.until_reached() if moment == "meanwhile" else first)
    second = begun(tab.get(urls[1]))
    if moment == "meanwhile":
        await until(lambda: here.op.record.calls["token"] == 3)
        gate.opened.set()
    assert (await second).json()[0] == id
    await first
    refused = moment == "afterwards"
    assert [await generation(each) for each in (browser, tab)] == [None if refused else 2, 2]
    here.time.advance(120)
    await browser.get(await callback_url(browser, STEP_UP, user="bob"))
    assert [await user(each) for each in (browser, tab)] == ["bob", "alice" if refused else None]


async def test_a_refresh_under_way_elsewhere_is_completed_first(mode: str) -> None:
    """And its copy of the cookie is refused like all others."""
    here, there = two_processes(mode, mount=mount)
    browser = await here.signed_in()
    before = await who(browser)
    here.time.advance(AFTER_EXPIRY)
    url = await callback_url(browser, STEP_UP)
    copy, held = copy_of(browser, there), Held(first=True)
    here.op.faults.put("token", held)
    refreshing = begun(copy.get("/who"))
    await held.gate.until_reached()
    stepping_up = begun(browser.get(url))
    await until(lambda: here.op.record.calls["token"] == 3)
    held.gate.opened.set()
    assert (await stepping_up).json() == [before[0], before[1] + AFTER_EXPIRY]
    await refreshing
    assert [await user(each) for each in (copy, browser)] == [None, "alice"]


async def test_a_store_that_fails_revokes_nothing_that_the_session_may_need(mode: str) -> None:
    world, outage = fallible_world(mode)
    browser, held = await world.signed_in(), Held(first=True)
    world.op.faults.put("token", held)
    url = await callback_url(browser, STEP_UP)
    stepping_up = begun(browser.get(url))
    await held.gate.until_reached()
    outage.is_down = True
    held.gate.opened.set()
    assert (await stepping_up).status_code == 503
    outage.is_down = False
    assert world.op.record.calls["revocation"] == 0
    assert await user(browser) == "alice"
