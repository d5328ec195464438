"""A callback is completed once, however often and wherever it comes.

The provider is strict: it takes back what it issued for a code that comes twice (RFC 6749 4.1.2).
"""

import asyncio
from secrets import token_urlsafe
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException, Request

from fastapi_oidc import IdentityContext, OIDCMiddleware, SignedIn, StandardIdentity
from fastapi_oidc.session.cookies import KeyRing
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.flows.steps import (
    LOCAL,
    callback_url,
    copy_of,
    generation,
    others_have_run,
    returned,
    two_processes,
    user,
)
from tests.oidc.interleaving import Gate, Held, another_process, begun
from tests.oidc.world import BASE_URL, Time, World, make_world


@pytest.mark.parametrize("are_two", [False, True], ids=["one process", "two processes"])
async def test_callbacks_at_once_exchange_the_code_once(
    processes: tuple[World, World], are_two: bool
) -> None:
    here, there = processes
    worlds = [here, there if are_two else here] * 3
    browser, held = here.browser(), Held()
    url = await callback_url(browser)
    here.op.faults.put("token", held)
    tabs = [copy_of(browser, world) for world in worlds]
    requests = [begun(tab.get(url, follow_redirects=False)) for tab in tabs]
    await held.gate.until_reached()
    held.gate.opened.set()
    answers = await asyncio.gather(*requests)
    assert {answer.headers["location"] for answer in answers} == {"/me"}
    assert here.op.record.calls["token"] == 1
    assert here.event_names().count("login.succeeded") == 1
    for world, answer in zip(reversed(worlds), answers, strict=True):
        other = world.browser()
        other.cookies.update(dict(answer.cookies))
        assert await generation(other) == 0


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another process"])
@pytest.mark.parametrize("how", ["sign-out", "revocation"])
async def test_callback_replayed_after_its_session_ended_signs_nobody_in(
    processes: tuple[World, World], elsewhere: bool, how: str
) -> None:
    here, there = processes
    browser = here.browser()
    url = await callback_url(browser)
    before = dict(browser.cookies)
    assert await returned(browser, url) == "/me"
    if how == "revocation":
        await there.oidc.revoke(sub="alice")
    else:
        await browser.post("/auth/logout", data=LOCAL)
    here.time.advance(30)
    again = (there if elsewhere else here).browser()
    again.cookies.update(before)
    assert await returned(again, url) is None
    assert await user(again) is None
    assert here.op.record.calls["token"] == 1


@pytest.mark.parametrize("unreadable", ["down", "another secret"])
async def test_repeated_callback_is_not_exchanged_while_the_store_cannot_be_read(
    mode: str, unreadable: str
) -> None:
    """What cannot be read is not known to be absent: another process may have sent the code."""
    time = Time()
    outage, options = fallible(mode, time)
    here = make_world(time=time, **options)
    there = another_process(here, **options)
    browser = here.browser()
    url = await callback_url(browser)
    again = copy_of(browser, there)
    assert await returned(browser, url) == "/me"
    if unreadable == "down":
        outage.is_down = True
    else:
        keys = KeyRing([token_urlsafe(32)])
        there.oidc.runtime.party.sessions.cells._sealer = keys.sealer("row")
    answer = await again.get(url)
    assert (answer.status_code, answer.json()["code"]) == (503, "session.store_unavailable")
    assert here.op.record.calls["token"] == 1
    outage.is_down = False
    assert await generation(browser) == 0, "its tokens were not taken back"


async def test_callback_replayed_later_returns_to_the_session(world: World) -> None:
    browser = world.browser()
    url = await callback_url(browser)
    before = dict(browser.cookies)
    await browser.get(url)
    assert await returned(browser, url) == "/", "its transaction is used up"
    reloaded = world.browser()
    reloaded.cookies.update(before)
    assert await returned(reloaded, url) == "/me", "the response before was lost"
    world.time.advance(3600)
    assert await returned(browser, url) == "/"
    assert world.op.record.calls["token"] == 1


async def test_a_step_up_whose_response_was_lost_survives_that_of_another_tab(mode: str) -> None:
    world, held = make_world(session_store="memory" if mode == "store" else None), Held()
    browser = await world.signed_in()
    world.time.advance(120)
    step_up = "/auth/login?max_age=60&return_to=/me"
    lost, other = [await callback_url(browser, step_up) for _ in range(2)]
    world.op.faults.put("token", held)
    request = begun(copy_of(browser, world).get(lost))
    await held.gate.until_reached()
    request.cancel()
    held.gate.opened.set()
    await others_have_run(300)
    assert [await returned(browser, each) for each in (other, lost)] == ["/me", "/me"]
    assert await generation(browser) == 2


@pytest.mark.parametrize("are_two", [False, True], ids=["one process", "two processes"])
async def test_code_that_was_used_up_is_not_sent_again(mode: str, are_two: bool) -> None:
    """The application refused the login."""

    def refuse(_context: IdentityContext) -> StandardIdentity:
        raise LookupError("nobody we know")

    here, there = two_processes(mode, resolve_identity=refuse)
    browser = here.browser()
    url = await callback_url(browser)
    again = copy_of(browser, there if are_two else here)
    with pytest.raises(LookupError):
        await browser.get(url)
    answer = await again.get(url)
    assert answer.json()["code"] == "authorization.transaction_missing"
    assert here.op.record.calls["token"] == 1


async def test_login_that_takes_too_long_is_there_at_the_reload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Gate()

    async def slow(_context: IdentityContext) -> StandardIdentity:
        await gate.passed()
        return StandardIdentity(sub="alice")

    world = make_world(resolve_identity=slow)
    exchanges = world.oidc.registrations.engine.code_exchanges
    once = exchanges.once
    monkeypatch.setattr(exchanges, "once", lambda *call, seconds: once(*call, seconds=0.01))
    browser = world.browser()
    url = await callback_url(browser)
    answer = await browser.get(url)
    assert (answer.status_code, answer.json()["code"]) == (504, "provider.timeout")
    monkeypatch.undo()
    gate.opened.set()
    assert await returned(browser, url) == "/me"


async def test_callback_that_comes_again_passes_on_success_too() -> None:
    """Otherwise a second request would sign in a person whom `on_success` is about to refuse."""
    gate, seen = Gate(), list[bool]()

    async def refuse(_request: Request, signed_in: SignedIn[Any]) -> None:
        seen.append(signed_in.replayed)
        if not signed_in.replayed:
            await gate.passed()
        raise HTTPException(403)

    world = make_world()
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=world.oidc)
    app.get("/auth/callback")(world.oidc.callback_handler(on_success=refuse))
    app.include_router(world.oidc.router, prefix="/auth")
    browser = world.op.browser(app, base_url=BASE_URL)
    url = await callback_url(browser)
    first = begun(browser.get(url, follow_redirects=False))
    await gate.until_reached()
    second = await browser.get(url, follow_redirects=False)
    gate.opened.set()
    assert [(await first).status_code, second.status_code] == [403, 403]
    assert seen == [False, True]
    assert "__Host-oidc_session" not in browser.cookies
