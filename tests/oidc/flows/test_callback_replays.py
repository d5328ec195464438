"""A callback is completed once, however often and wherever it comes; no shutdown loses a session.

The provider is strict: it takes back what it issued for a code that comes twice (RFC 6749 4.1.2).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from secrets import token_urlsafe
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request
from starlette.types import Receive, Scope, Send

from fastapi_oidc import OIDC, Clock, IdentityContext, OIDCMiddleware, SignedIn, StandardIdentity
from fastapi_oidc.flows import callback
from fastapi_oidc.flows.callback import longest_login
from fastapi_oidc.session.cookies import KeyRing
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LOCAL,
    callback_url,
    copy_of,
    generation,
    others_have_run,
    returned,
    stores_of,
    two_processes,
    user,
)
from tests.oidc.interleaving import Gate, Held, another_process, begun
from tests.oidc.suspensions import (
    SuspendingNetwork,
    SuspendingStore,
    is_cancelled,
    others_have_ended,
    suspending,
)
from tests.oidc.world import BASE_URL, LOGIN_URL, Time, World, make_world


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


async def test_callback_replayed_by_a_copy_from_before_a_step_up_signs_nobody_in(
    world: World,
) -> None:
    browser = world.browser()
    url = await callback_url(browser)
    copy = copy_of(browser, world)
    await browser.get(url)
    assert await returned(browser, await callback_url(browser, f"{LOGIN_URL}&max_age=60")) == "/me"
    assert await returned(copy, url) is None


async def test_login_that_takes_too_long_is_there_at_the_reload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Gate()

    async def slow(_context: IdentityContext) -> StandardIdentity:
        await gate.passed()
        return StandardIdentity(sub="alice")

    world = make_world(resolve_identity=slow)
    monkeypatch.setattr(callback, "longest_login", lambda _: 0.01)
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
    assert "outermost application ends: await oidc.aclose()\n" in said


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
