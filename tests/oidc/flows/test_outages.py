"""A session that ends while its store is down: over here at once, elsewhere with the store."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from fastapi_oidc import Clock
from fastapi_oidc.session import cells
from fastapi_oidc.testing import TokenRevoked
from tests.oidc.flows.fallible_stores import FallibleStore, Outage, fallible
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LOCAL,
    callback_url,
    closed_by_a_job,
    copy_of,
    generation,
    live_in,
    revoked_by,
    stores_of,
)
from tests.oidc.interleaving import Gate, Held, another_process, begun
from tests.oidc.world import Time, World, make_world


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


async def test_tokens_are_revoked_before_the_connections_to_the_provider_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, steps = make_place("store"), list[str]()
    party, network = place.world.oidc.runtime.party, place.world.oidc.registrations.engine.network

    async def revoke(*_: str) -> None:
        steps.append("revoked")

    async def close() -> None:
        steps.append("closed")

    monkeypatch.setattr(party.provider, "revoke", revoke)
    monkeypatch.setattr(network, "aclose", close)
    await place.signed_out()
    place.outage.is_down = False
    await place.world.oidc.aclose()
    assert steps == ["revoked", "closed"]


async def test_end_that_cannot_be_written_is_given_up_when_the_application_ends(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "SHUTDOWN_SECONDS", 0.1)
    await place.signed_out()
    await place.world.oidc.aclose()
    assert place.world.event_names()[-1] == "session.removal_given_up"


async def test_end_is_not_given_up_because_a_job_in_a_thread_ends(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "SHUTDOWN_SECONDS", 0.1)
    copy = await place.signed_out()
    await closed_by_a_job(place.world)
    place.outage.is_down = False
    await place.written()
    assert await generation(copy) is None
    assert "session.removal_given_up" not in place.world.event_names()


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


@pytest.mark.parametrize("is_revoked", [True, False])
async def test_a_sign_out_revokes_the_token_that_the_store_returns_only_later(
    mode: str, is_revoked: bool
) -> None:
    settings = {"revoke_on_local_logout": is_revoked}
    place = make_place(mode, settings=settings)
    await place.signed_out()
    place.outage.is_down = False
    await place.written()
    assert len(place.world.op.record.of(TokenRevoked)) == is_revoked


async def test_an_end_that_is_written_late_revokes_the_token_of_a_refresh_that_came_before(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sign-out did not know it."""
    time = Time()
    outages = [Outage(failing=frozenset({"swap"})), Outage()]
    stores = [FallibleStore(outage, Clock(read=time)) for outage in outages]
    stores[1]._values = stores[0]._values
    world = make_world(time=time, **stores_of(mode, stores[0]))
    there = another_process(world, **stores_of(mode, stores[1]))
    browser, revoked = await world.signed_in(), revoked_by(world, monkeypatch)
    outages[0].is_down = True
    refreshed = copy_of(browser, there)
    await browser.post("/auth/logout", data=LOCAL)
    time.advance(AFTER_EXPIRY)
    assert await generation(refreshed) == 1
    newest = await live_in(there, refreshed)
    outages[0].is_down = False
    await Place(world, outages[0], there).written()
    assert await generation(refreshed) is None
    assert newest.session.tokens.refresh_token in revoked
