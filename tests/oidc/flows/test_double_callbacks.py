"""The same callback again: a reload while it is slow, a page that was loaded twice.

The provider is strict: a code that comes twice takes back what it gave (RFC 6749 4.1.2).
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request

from fastapi_oidc import (
    OIDC,
    Clock,
    IdentityContext,
    MemoryRefreshLock,
    MemorySessionStore,
    SignedIn,
    StandardIdentity,
)
from fastapi_oidc.testing import ServerError
from fastapi_oidc.testing.headless import _first_form
from tests.oidc.flows.test_refresh import LONG_AFTER, generation
from tests.oidc.interleaving import Held, another_process, begun, same_browser
from tests.oidc.world import BASE_URL, LOGIN_URL, Time, World, make_world


async def callback_url(world: World, browser: httpx.AsyncClient) -> str:
    """Sign in at the provider, and stop before the browser comes back with the code."""
    answer = await browser.get(LOGIN_URL, follow_redirects=False)
    while not answer.headers["location"].startswith(f"{BASE_URL}/auth/callback"):
        answer = await browser.get(answer.headers["location"], follow_redirects=False)
        if answer.status_code == 200:
            answer = await chosen(browser, answer)
    return str(answer.headers["location"])


async def chosen(browser: httpx.AsyncClient, page: httpx.Response) -> httpx.Response:
    form = _first_form(page)
    data = form.fields | {"user": "alice"}
    return await browser.post(form.action, data=data, follow_redirects=False)


async def test_ten_identical_callbacks_redeem_the_code_once(world: World) -> None:
    browser = world.browser()
    url = await callback_url(world, browser)
    held = Held()
    world.op.faults.put("token", held)
    callbacks = [begun(browser.get(url, follow_redirects=False)) for _ in range(10)]
    await held.gate.until_reached()
    held.gate.opened.set()
    answers = await asyncio.gather(*callbacks)
    assert {(answer.status_code, answer.headers["location"]) for answer in answers} == {
        (302, "/me")
    }
    assert world.op.record.calls["token"] == 1
    assert world.event_names().count("login.succeeded") == 1
    for answer in answers:
        other = world.browser()
        other.cookies.update(dict(answer.cookies))
        assert await generation(other) == 0


async def test_a_reload_of_a_callback_whose_answer_was_lost_is_signed_in(world: World) -> None:
    browser = world.browser()
    url = await callback_url(world, browser)
    held = Held(first=True)
    world.op.faults.put("token", held)
    lost = begun(browser.get(url, follow_redirects=False))
    await held.gate.until_reached()
    lost.cancel()
    await asyncio.wait([lost])
    held.gate.opened.set()
    answer = await browser.get(url, follow_redirects=False)
    assert answer.headers["location"] == "/me"
    assert await generation(browser) == 0
    assert world.op.record.calls["token"] == 1
    world.time.advance(LONG_AFTER)
    assert await generation(browser) == 1, "the provider took nothing back"


@pytest.mark.parametrize("mode", ["cookie", "store"])
async def test_two_processes_redeem_the_code_once(mode: str) -> None:
    time = Time()
    clock = Clock(read=time)
    shared: dict[str, Any] = {"refresh_lock": MemoryRefreshLock(clock=clock)}
    if mode == "store":
        shared["session_store"] = MemorySessionStore[Any](clock=clock)
    here = make_world(time=time, **shared)
    there = another_process(here, **shared)
    browser = here.browser()
    url = await callback_url(here, browser)
    tabs = [same_browser(browser, world) for world in (here, there)]
    held = Held()
    here.op.faults.put("token", held)
    callbacks = [begun(tab.get(url, follow_redirects=False)) for tab in tabs]
    await held.gate.until_reached()
    held.gate.opened.set()
    answers = await asyncio.gather(*callbacks)
    assert [answer.headers["location"] for answer in answers] == ["/me", "/me"]
    assert here.op.record.calls["token"] == 1
    for world, answer in zip((there, here), answers, strict=True):
        other = world.browser()
        other.cookies.update(dict(answer.cookies))
        assert await generation(other) == 0


async def test_the_application_hears_of_a_login_once_with_whichever_answer_comes_first() -> None:
    heard: list[str] = []

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        def on_success(request: Request, signed_in: SignedIn[Any]) -> None:
            heard.append(signed_in.session.sub)

        app.router.routes.clear()
        app.get("/auth/callback")(oidc.callback_handler(on_success=on_success))
        app.include_router(oidc.router, prefix="/auth")

    world = make_world(mount=mount)
    world.oidc.site.redemptions._patience = 0.01
    browser = world.browser()
    url = await callback_url(world, browser)
    held = Held(first=True)
    world.op.faults.put("token", held)
    assert (await browser.get(url)).status_code == 504
    held.gate.opened.set()
    for _ in range(3):
        world.oidc.site.redemptions._patience = 5
        await browser.get(url, follow_redirects=False)
    assert heard == ["alice"]


async def test_a_login_that_takes_too_long_is_there_at_the_reload() -> None:
    settings = {"provider_timeout": 0.2, "callback_timeout": 5}

    async def slow(context: IdentityContext) -> StandardIdentity:
        await gate.wait()
        return StandardIdentity(sub="alice")

    gate = asyncio.Event()
    world = make_world(settings=settings, resolve_identity=slow)
    world.oidc.site.redemptions._patience = 0.01
    browser = world.browser()
    url = await callback_url(world, browser)
    answer = await browser.get(url)
    assert (answer.status_code, answer.json()["code"]) == (504, "provider.timeout")
    gate.set()
    assert (await browser.get(url, follow_redirects=False)).headers["location"] == "/me"
    assert await generation(browser) == 0


async def test_while_the_provider_is_down_a_callback_uses_nothing_up() -> None:
    world = make_world()
    browser = world.browser()
    url = await callback_url(world, browser)
    world.op.faults.put("jwks", ServerError(), times=2)
    assert (await browser.get(url)).status_code == 502
    assert world.op.record.calls["token"] == 0
    world.op.faults.clear()
    world.time.advance(10)
    answer = await browser.get(url, follow_redirects=False)
    assert answer.headers["location"] == "/me"


async def test_a_lock_that_is_down_keeps_nobody_from_signing_in() -> None:
    class Down(MemoryRefreshLock):
        async def run_exclusive(self, *_: Any) -> bytes:
            raise ConnectionError

    world = make_world(refresh_lock=Down())
    assert await generation(await world.signed_in()) == 0


async def test_an_error_of_the_application_is_its_own_under_a_lock_too() -> None:
    def resolve(context: IdentityContext) -> StandardIdentity:
        raise HTTPException(403, "not you")

    world = make_world(refresh_lock=MemoryRefreshLock(), resolve_identity=resolve)
    browser = world.browser()
    url = await callback_url(world, browser)
    answer = await browser.get(url)
    assert (answer.status_code, answer.json()) == (403, {"detail": "not you"})
