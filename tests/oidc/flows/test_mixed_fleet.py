"""Processes that differ in clocks, secrets or releases; ends of sessions while a store is down."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from fastapi_oidc import Clock, OIDCSettings
from fastapi_oidc.session import cells
from fastapi_oidc.testing import LogoutDelivered, TokenRevoked, sign_in
from tests.oidc.flows.fallible_stores import FallibleStore, Outage, fallible
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LOCAL,
    callback_url,
    copy_of,
    generation,
    returned,
    shared_stores,
    user,
)
from tests.oidc.interleaving import Gate, Held, another_process, begun, same_browser
from tests.oidc.world import LOGIN_URL, Time, World, make_world

FAULT, ACCESS_TOKEN = 120, 300
MARGIN = OIDCSettings.model_fields["refresh_margin"].default
SESSION = OIDCSettings.model_fields["session_lifetime"].default


@dataclass(slots=True)
class Clocks:
    """Three processes of one application, by their clocks."""

    time: Time
    right: World
    ahead: World
    behind: World


@pytest.fixture
def clocks(mode: str) -> Clocks:
    time = Time()
    stores = shared_stores(mode, time)
    right = make_world(time=time, **stores)
    ahead = another_process(right, clock=Clock(read=lambda: time() + FAULT), **stores)
    behind = another_process(right, clock=Clock(read=lambda: time() - FAULT), **stores)
    return Clocks(time, right, ahead, behind)


async def at(browser: httpx.AsyncClient, *worlds: World) -> list[int | None]:
    """The generation of the browser's session at each process."""
    return [await generation(same_browser(browser, world)) for world in worlds]


async def test_sessions_live_and_end_across_a_clock_that_is_ahead(clocks: Clocks) -> None:
    for begins, ends in ((clocks.ahead, clocks.right), (clocks.right, clocks.ahead)):
        browser = await begins.signed_in()
        for number in (0, 1, 2):
            assert await at(browser, ends, begins) == [number, number]
            clocks.time.advance(AFTER_EXPIRY)
        copy = copy_of(browser, begins)
        await same_browser(browser, ends).post("/auth/logout", data=LOCAL)
        assert await at(copy, begins, ends) == [None, None]


async def test_a_session_is_over_early_where_the_clock_is_ahead_and_late_if_it_began_there(
    clocks: Clocks,
) -> None:
    early, late = await clocks.right.signed_in(), await clocks.ahead.signed_in()
    clocks.time.advance(SESSION - FAULT)
    assert None not in await at(early, clocks.right)
    assert await at(early, clocks.ahead, clocks.right) == [None, None], "its cookie is cleared"
    clocks.time.advance(FAULT - 1)
    assert None not in await at(late, clocks.ahead)
    clocks.time.advance(1)
    assert await at(late, clocks.ahead) == [None]


async def test_a_clock_that_is_behind_refuses_logins_and_ends_no_session(clocks: Clocks) -> None:
    """What the provider says is dated after its time; nobody is signed out for that."""
    right, behind = clocks.right, clocks.behind
    refused = await sign_in(behind.browser(), LOGIN_URL, user="bob")
    assert (refused.status_code, refused.json()["code"]) == (400, "id_token.issued_at")
    bob = behind.browser()
    url = await callback_url(bob, user="bob")
    assert await returned(same_browser(bob, right), url) == "/me"
    assert await at(bob, behind) == [0]

    alice = await right.signed_in()
    clocks.time.advance(AFTER_EXPIRY + FAULT)
    answer = await same_browser(alice, behind).get("/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
    assert await at(alice, right, behind) == [1, 1]


async def test_a_clock_that_is_behind_refuses_the_providers_logouts(clocks: Clocks) -> None:
    right, behind = clocks.right, clocks.behind
    for told, status, after in ((behind, 400, 0), (right, 200, None)):
        browser = await right.signed_in()
        right.op.back_channel_transport = httpx.ASGITransport(told.app)
        clocks.time.advance(1)
        await right.op.log_out("alice")
        assert right.op.record.of(LogoutDelivered)[-1].status == status
        assert await at(browser, right, behind) == [after, after]


OLD, NEW = secrets.token_urlsafe(32), secrets.token_urlsafe(32)


@pytest.fixture
def processes(mode: str) -> list[World]:
    """Each has the next secrets of a rollout."""
    time = Time()
    stores = shared_stores(mode, time)
    old = make_world(time=time, settings={"cookie_secret": OLD}, **stores)
    usual = dict(old.oidc.settings)
    later = [
        OIDCSettings.model_validate(usual | {"cookie_secret": each})
        for each in ([OLD, NEW], [NEW, OLD], [NEW])
    ]
    return [old, *(another_process(old, settings=each, **stores) for each in later)]


async def rolled_out(browser: httpx.AsyncClient, before: World, after: World) -> None:
    """Each process continues what the other one has sealed: sessions and logins under way."""
    known = await generation(same_browser(browser, before))
    assert known is not None
    for one, other in ((after, before), (before, after)):
        known += 1
        before.time.advance(AFTER_EXPIRY)
        for each in (one, other):
            assert await generation(same_browser(browser, each)) == known
        bob = one.browser()
        url = await callback_url(bob, user="bob")
        assert await returned(same_browser(bob, other), url) == "/me"


async def test_nobody_is_signed_out_while_a_new_cookie_secret_is_rolled_out(
    processes: list[World],
) -> None:
    old, both, changed, new = processes
    browser = await old.signed_in()
    await rolled_out(browser, old, both)
    await rolled_out(browser, both, changed)
    old.time.advance(SESSION)
    browser = await changed.signed_in()
    await rolled_out(browser, changed, new)


async def test_a_session_of_the_next_release_waits_for_a_process_that_can_read_it(
    processes: list[World], mode: str
) -> None:
    old, _, new, _ = processes
    # A cookie that cannot be read is none; a row that cannot be read is not known to be absent.
    refused, page_status = (401, 302) if mode == "cookie" else (503, 503)
    browser = await old.signed_in()
    assert await generation(same_browser(browser, new)) == 0
    old.time.advance(AFTER_EXPIRY)
    assert await generation(same_browser(browser, new)) == 1
    for headers, status in (({}, refused), ({"Sec-Fetch-Mode": "navigate"}, page_status)):
        answer = await browser.get("/me", headers=headers, follow_redirects=False)
        assert (answer.status_code, "set-cookie" in answer.headers) == (status, False)
    assert await generation(same_browser(browser, new)) == 1


async def test_a_login_of_the_next_release_is_completed_by_who_can_read_it(
    processes: list[World],
) -> None:
    old, _, new, _ = processes
    browser = new.browser()
    url = await callback_url(browser)
    at_old = await same_browser(browser, old).get(url)
    assert (at_old.status_code, "set-cookie" in at_old.headers) == (400, False)
    assert await returned(browser, url) == "/me"
    assert await user(browser) == "alice"


@dataclass(slots=True)
class Place:
    """An application whose store can be down, and another process of it."""

    world: World
    outage: Outage
    other: World

    async def written(self) -> None:
        """Wait until the store has taken every write."""
        await self.world.oidc.registrations.engine.last_steps.wait(20)

    async def signed_out(self) -> httpx.AsyncClient:
        """A browser of the other process with a copied cookie; its session was signed out here
        while the store was down."""
        browser = await self.world.signed_in()
        copy = copy_of(browser, self.other)
        self.outage.is_down = True
        answer = await browser.post("/auth/logout", data=LOCAL, follow_redirects=False)
        assert "Max-Age=0" in answer.headers["set-cookie"]
        assert self.world.event_names()[-2:].count("session.not_removed") == 1
        return copy


def make_place(mode: str, **options: Any) -> Place:
    time = Time()
    outage, stores = fallible(mode, time)
    world = make_world(time=time, **stores, **options)
    return Place(world, outage, another_process(world, **stores))


@pytest.fixture
def place(mode: str) -> Place:
    return make_place(mode)


async def test_end_is_written_when_the_application_ends(place: Place) -> None:
    copy = await place.signed_out()
    place.outage.is_down = False
    await place.world.oidc.aclose()
    assert await generation(copy) is None
    assert place.world.event_names()[-1] == "session.removed"


async def test_end_that_cannot_be_written_is_given_up_when_the_application_ends(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "SHUTDOWN_SECONDS", 0.1)
    await place.signed_out()
    await place.world.oidc.aclose()
    assert place.world.event_names()[-1] == "session.removal_given_up"


async def test_row_that_was_read_before_its_end_was_written_signs_nobody_in(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process knows the end until the store has it: also for a reply that comes later."""
    gate, read = Gate(), FallibleStore.read

    async def read_slowly(store: FallibleStore, keys: Sequence[str]) -> Sequence[bytes]:
        values = await read(store, keys)
        await gate.passed()
        return values

    copy = copy_of(await place.signed_out(), place.world)
    place.outage.failing = frozenset({"swap"})
    with monkeypatch.context() as slow:
        slow.setattr(FallibleStore, "read", read_slowly)
        late = begun(copy.get("/me"))
        reached = asyncio.create_task(gate.until_reached())
        await asyncio.wait([late, reached], return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
    place.outage.is_down = False
    await place.written()
    gate.opened.set()
    assert (await late).status_code == 401


async def test_request_without_its_store_is_503_and_signs_nobody_out(place: Place) -> None:
    browser = await place.world.signed_in()
    place.outage.is_down = True
    for path in ("/me", "/"):
        answer = await browser.get(path)
        assert answer.status_code == 503
        assert answer.json()["code"] == "session.store_unavailable"
        assert "set-cookie" not in answer.headers
    place.outage.is_down = False
    assert await generation(browser) == 0


async def test_login_without_its_store_signs_nobody_in_before_the_reload(place: Place) -> None:
    """Its code was not sent."""
    browser = place.world.browser()
    url = await callback_url(browser)
    place.outage.is_down = True
    assert (await browser.get("/auth/login")).status_code == 503
    assert (await browser.get(url)).status_code == 503
    place.outage.is_down = False
    assert await generation(browser) is None
    assert (await browser.get(url)).status_code == 200
    assert await generation(browser) == 0
    assert place.world.op.record.calls["token"] == 1


async def test_store_that_fails_during_a_login_refuses_it_at_once(place: Place) -> None:
    """Its callback does not wait until the store has what became of the login."""
    held = Held(first=True)
    place.world.op.faults.put("token", held)
    browser = place.world.browser()
    callback = begun(browser.get(await callback_url(browser)))
    await held.gate.until_reached()
    place.outage.is_down = True
    held.gate.opened.set()
    async with asyncio.timeout(5):
        assert (await callback).status_code == 503


@pytest.mark.parametrize("moment", ["read", "swap"])
async def test_cancellation_from_within_a_store_is_an_outage(place: Place, moment: str) -> None:
    """Nobody has cancelled the request, so it is answered."""
    browser = await place.world.signed_in()
    place.outage.error, place.outage.failing = asyncio.CancelledError, frozenset({moment})
    place.world.time.advance(AFTER_EXPIRY)
    place.outage.is_down = True
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.store_unavailable")
    if moment == "read":
        assert (await browser.get(await callback_url(browser))).status_code == 503
    place.outage.is_down = False
    assert await generation(browser) == 1


async def test_session_in_a_cookie_ends_at_the_provider_too() -> None:
    place = make_place("cookie")
    browser = await place.world.signed_in()
    place.outage.is_down = True
    answer = await browser.post("/auth/logout", follow_redirects=False)
    assert "id_token_hint=ey" in answer.headers["location"]
    assert len(place.world.op.record.of(TokenRevoked)) == 1
