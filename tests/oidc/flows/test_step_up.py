"""A step-up while other requests, here and in other processes, work on the same session."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from fastapi import Depends, FastAPI

from fastapi_oidc import OIDC, OIDCSession
from fastapi_oidc.testing import ServerError
from fastapi_oidc.testing.headless import _first_form
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LOCAL,
    callback_url,
    copy_of,
    refreshes,
    two_processes,
    until,
    user,
)
from tests.oidc.interleaving import Held, begun
from tests.oidc.world import World, make_world

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
    assert [answer.json() for answer in answers] == [[before[0], before[1] + 120]] * 2
    assert here.op.record.calls["token"] == 2


async def test_a_refresh_under_way_elsewhere_comes_first(mode: str) -> None:
    here, there = two_processes(mode, mount=mount)
    browser = await here.signed_in()
    before = await who(browser)
    here.time.advance(AFTER_EXPIRY)
    url = await callback_url(browser, STEP_UP)
    copy, held = copy_of(browser, there), Held(first=True)
    here.op.faults.put("token", held)
    refreshing = begun(copy.get("/who"))
    await held.gate.until_reached()
    stepping = begun(browser.get(url))
    await until(lambda: here.op.record.calls["token"] == 3)
    held.gate.opened.set()
    assert (await refreshing).json()[0] == before[0]
    assert (await stepping).json() == [before[0], before[1] + AFTER_EXPIRY]
    assert await who(browser) == [before[0], before[1] + AFTER_EXPIRY]
    here.time.advance(AFTER_EXPIRY)
    assert (await who(browser))[0] == before[0]
    assert refreshes(here) == 2


async def test_a_sign_out_in_another_tab_makes_it_an_ordinary_login(mode: str) -> None:
    world = make_world(mount=mount, session_store="memory" if mode == "store" else None)
    browser = await world.signed_in()
    before = await who(browser)
    world.time.advance(120)
    url = await callback_url(browser, STEP_UP)
    await browser.post("/auth/logout", data=LOCAL)
    assert (await browser.get(url)).json()[0] != before[0]


async def test_a_provider_that_fails_leaves_the_session_as_it_was(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(120)
    url = await callback_url(browser, STEP_UP)
    world.op.faults.put("token", ServerError())
    assert (await browser.get(url)).status_code == 502
    assert await user(browser) == "alice"


async def test_a_form_post_without_the_session_cookie_begins_a_new_session() -> None:
    settings = {"response_mode": "form_post"}
    world = make_world(mount=mount, settings=settings, session_store="memory")
    browser = await world.signed_in()
    before, copy = await who(browser), copy_of(browser, world)
    page = await browser.get(STEP_UP + "&login_hint=alice")
    form = _first_form(page)
    browser.cookies.delete("__Host-oidc_session")  # SameSite=Lax
    answer = await browser.post(form.action, data=form.fields)
    assert (answer.status_code, answer.url.path) == (200, "/who")
    assert answer.json()[0] != before[0]
    assert await user(copy) is None
