"""An application that ends while refreshes are under way; their refresh tokens are good once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fastapi_oidc import MemoryRefreshLock, MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.flows.refresher import Refresher
from fastapi_oidc.once import Turns
from tests.oidc.flows.test_cancelled_requests import to_callback
from tests.oidc.flows.test_refresh import LONG_AFTER, generation, refreshes
from tests.oidc.interleaving import Held, begun
from tests.oidc.world import World, make_world


@pytest.fixture
def world() -> World:
    return make_world(session_store="memory")


async def has_had_its_chance(closing: asyncio.Task[None]) -> bool:
    for _ in range(50):
        await asyncio.sleep(0)
    return closing.done()


async def both_are_under_way(refresher: Refresher[Any]) -> bool:
    for _ in range(1000):
        if len(refresher._flights) == 2:
            return True
        await asyncio.sleep(0)
    return False


async def test_a_refresh_that_was_sent_comes_to_its_end_first(world: World) -> None:
    browser, held = await world.signed_in(), Held(first=True)
    world.op.faults.put("token", held)
    world.time.advance(LONG_AFTER)
    request = begun(browser.get("/me"))
    await held.gate.until_reached()
    request.cancel()
    closing = asyncio.create_task(world.oidc.site.aclose())
    assert not await has_had_its_chance(closing)
    held.gate.opened.set()
    await closing
    assert await generation(browser) == 1
    assert refreshes(world) == 1


async def test_a_refresh_that_waits_for_its_turn_is_not_sent(world: World) -> None:
    first, second = await world.signed_in(), await world.signed_in("bob")
    world.oidc.site.refresher._turns = Turns(1)
    held = Held(first=True)
    world.op.faults.put("token", held)
    world.time.advance(LONG_AFTER)
    requests = [begun(browser.get("/me")) for browser in (first, second)]
    await held.gate.until_reached()
    closing = asyncio.create_task(world.oidc.site.aclose())
    assert not await has_had_its_chance(closing)
    held.gate.opened.set()
    await closing
    answers = await asyncio.gather(*requests)
    assert [answer.status_code for answer in answers] == [200, 503]
    assert "retry-after" in answers[1].headers
    assert refreshes(world) == 1
    assert await generation(second) == 1


async def test_a_refresh_that_waits_longer_than_the_shutdown_is_not_sent_either(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def for_no_time(_seconds: float) -> None:
        """As when the time for it is over."""

    site, held = world.oidc.site, Held(first=True)
    first, second = await world.signed_in(), await world.signed_in("bob")
    site.refresher._turns = Turns(1)
    world.op.faults.put("token", held)
    world.time.advance(LONG_AFTER)
    requests = [begun(browser.get("/me")) for browser in (first, second)]
    await held.gate.until_reached()
    assert await both_are_under_way(site.refresher)
    monkeypatch.setattr(site.refresher._flights, "ended", for_no_time)
    await site.refresher.aclose()
    held.gate.opened.set()
    answers = await asyncio.gather(*requests)
    assert [answer.status_code for answer in answers] == [200, 503]
    assert refreshes(world) == 1
    assert await generation(first) == 1
    assert await generation(second) == 1, "once the application is started again"


async def test_a_login_whose_code_was_sent_comes_to_its_end_first(world: World) -> None:
    browser, held = world.browser(), Held(first=True)
    world.op.faults.put("token", held)
    callback = await to_callback(browser)
    request = begun(browser.get(callback))
    await held.gate.until_reached()
    request.cancel()
    closing = asyncio.create_task(world.oidc.site.aclose())
    assert not await has_had_its_chance(closing)
    held.gate.opened.set()
    await closing
    assert (await browser.get(callback)).json()["sub"] == "alice"


class Closing:
    """Notes that it was closed, or fails at it."""

    def __init__(self, closed: list[str], name: str, *, fails: bool = False) -> None:
        self._closed, self._name, self._fails = closed, name, fails

    async def aclose(self) -> None:
        self._closed.append(self._name)
        if self._fails:
            raise RuntimeError(self._name)


class Sessions(Closing, MemorySessionStore[Any]):
    def __init__(self, closed: list[str], name: str, *, fails: bool) -> None:
        Closing.__init__(self, closed, name, fails=fails)
        MemorySessionStore.__init__(self)


class Lock(Closing, MemoryRefreshLock):
    def __init__(self, *about: Any) -> None:
        Closing.__init__(self, *about)
        MemoryRefreshLock.__init__(self)


class Endings(Closing, MemoryRevocationStore):
    def __init__(self, *about: Any) -> None:
        Closing.__init__(self, *about)
        MemoryRevocationStore.__init__(self)


@pytest.mark.parametrize("failing", ["provider", "sessions"])
async def test_what_cannot_be_closed_keeps_nothing_else_open(failing: str) -> None:
    closed: list[str] = []
    world = make_world(
        session_store=Sessions(closed, "sessions", fails=failing == "sessions"),
        back_channel_logout_store=Endings(closed, "endings"),
        refresh_lock=Lock(closed, "lock"),
    )
    client = Closing(closed, "provider", fails=failing == "provider")
    world.oidc.site.party.provider.aclose = client.aclose  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match=failing):
        await world.oidc.site.aclose()
    assert sorted(closed) == ["endings", "lock", "provider", "sessions"]
