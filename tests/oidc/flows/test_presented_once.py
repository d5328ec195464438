"""A refresh token is presented once, whatever becomes of the process that presented it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fastapi_oidc import Clock, MemoryRefreshLock, MemorySessionStore, OIDCSession
from fastapi_oidc.flows import answers
from fastapi_oidc.session.abilities import Turn
from fastapi_oidc.session.memory_lock import REMEMBERED_SECONDS
from fastapi_oidc.testing import ServerError
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.flows.test_refresh import LONG_AFTER, generation, refreshes
from tests.oidc.flows.test_silent_login import check, outcome, without_refresh_token
from tests.oidc.interleaving import Gate, Held, another_process, begun, same_browser
from tests.oidc.suspensions import others_have_ended
from tests.oidc.world import Time, World, make_world

ONE_PAUSE = 6
LONGEST_EXCHANGE = 70
"""Seconds for a request to go out, and for its answer to come."""


class LostLock(MemoryRefreshLock):
    """The lease of each run is over at once, as if its process stood still.

    The first note waits at `gate`, where there is one.
    """

    def __init__(self, clock: Clock, gate: Gate | None = None) -> None:
        super().__init__(clock=clock)
        self._gate = gate

    async def claim(self, name: str, data: bytes, seconds: int, /) -> bytes | None:  # type: ignore[override]  # as the protocol lets it
        gate, self._gate = self._gate, None
        if gate is not None:
            await gate.passed()
        return super().claim(name, data, seconds)

    async def run_in_turn(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], turn: Turn, /
    ) -> bytes:
        async with turn():
            return await operation()


class Sessions(MemorySessionStore[Any]):
    """Holds one reading back: the last one of `readings` to come."""

    readings = 0

    def __init__(self, time: Time) -> None:
        super().__init__(clock=Clock(read=time))
        self.gate = Gate()

    async def get(self, id: str, /) -> OIDCSession[Any] | None:
        found = await super().get(id)
        self.readings -= 1
        if self.readings == 0:
            await self.gate.passed()
        return found


def two_processes(mode: str, gate: Gate | None = None) -> tuple[World, World, Sessions]:
    time = Time()
    sessions = Sessions(time)
    shared: dict[str, Any] = {
        "refresh_lock": LostLock(Clock(read=time), gate),
        "session_store": sessions if mode == "store" else None,
    }
    world = make_world(time=time, **shared)
    return world, another_process(world, **shared), sessions


def presented(world: World) -> int:
    return world.op.record.calls["token"] - 1


@pytest.mark.parametrize("mode", ["cookie", "store"])
async def test_who_takes_the_lock_of_a_process_that_stands_still_waits_for_its_answer(
    mode: str,
) -> None:
    here, there, _ = two_processes(mode)
    browser, held = await here.signed_in(), Held(first=True)
    other = same_browser(browser, there)
    here.op.faults.put("token", held)
    here.time.advance(LONG_AFTER)
    standing = begun(browser.get("/me"))
    await held.gate.until_reached()
    answer = await other.get("/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
    assert "retry-after" in answer.headers
    held.gate.opened.set()
    assert (await standing).json()["generation"] == 1
    here.time.advance(ONE_PAUSE)
    assert await generation(other) == 1
    assert presented(here) == 1


async def test_a_process_that_stood_still_before_it_presented_the_token_does_not() -> None:
    here, there, sessions = two_processes("store")
    browser, held = await here.signed_in(), Held(first=True)
    here.time.advance(LONG_AFTER)
    sessions.readings = 2  # of the request, and of the refresh
    standing = begun(browser.get("/me"))
    await sessions.gate.until_reached()
    here.op.faults.put("token", held)
    elsewhere = begun(same_browser(browser, there).get("/me"))
    await held.gate.until_reached()
    sessions.gate.opened.set()
    assert (await standing).status_code == 503
    held.gate.opened.set()
    assert (await elsewhere).json()["generation"] == 1
    here.time.advance(ONE_PAUSE)
    assert await generation(browser) == 1
    assert presented(here) == 1


@pytest.mark.parametrize("mode", ["cookie", "store"])
async def test_a_process_that_stood_still_until_another_one_was_done_does_not(mode: str) -> None:
    gate = Gate()
    here, there, _ = two_processes(mode, gate)
    browser = await here.signed_in()
    here.time.advance(LONG_AFTER)
    standing = begun(browser.get("/me"))
    await gate.until_reached()
    assert await generation(same_browser(browser, there)) == 1
    gate.opened.set()
    assert (await standing).status_code == 503
    here.time.advance(ONE_PAUSE)
    assert await generation(browser) == 1
    assert presented(here) == 1


@pytest.mark.parametrize("mode", ["cookie", "store"])
async def test_a_token_whose_answer_can_no_longer_come_is_presented_again(mode: str) -> None:
    """The process that presented it died; the provider had not taken the request yet."""
    here, there, _ = two_processes(mode)
    browser, held = await here.signed_in(), Held()
    other = same_browser(browser, there)
    here.op.faults.put("token", held)
    here.time.advance(LONG_AFTER)
    begun(browser.get("/me"))
    await held.gate.until_reached()
    assert (await other.get("/me")).status_code == 503
    here.time.advance(LONGEST_EXCHANGE)
    assert await generation(other) == 1
    assert refreshes(here) == 1


class Forgetful(MemoryRefreshLock):
    """Takes nothing whose name begins like this while it is down."""

    is_down = False
    begin = ""

    def keep(self, name: str, data: bytes, seconds: int, /) -> None:
        if self.is_down and name.startswith(self.begin):
            raise ConnectionError
        super().keep(name, data, seconds)


@pytest.mark.parametrize("is_ended", [False, True], ids=["goes on", "ends"])
@pytest.mark.parametrize("mode", ["cookie", "store"])
async def test_an_answer_that_the_lock_could_not_take_is_left_as_soon_as_it_can(
    mode: str, is_ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another process presents the token again, once the note of it is over."""
    time = Time()
    lock = Forgetful(clock=Clock(read=time))
    store, options = fallible(mode, time)
    here = make_world(time=time, refresh_lock=lock, **options)
    there = another_process(here, refresh_lock=lock, **options)
    browser, held = await here.signed_in(), Held(first=True)
    here.op.faults.put("token", held)
    time.advance(LONG_AFTER)
    request = begun(browser.get("/me"))
    await held.gate.until_reached()
    lock.is_down = store.is_down = True
    monkeypatch.setattr(answers, "PAUSE", 0.5 if is_ended else 0.0)
    held.gate.opened.set()
    assert (await request).status_code == 503
    lock.is_down = store.is_down = False
    await (here.oidc.aclose() if is_ended else others_have_ended())
    time.advance(LONGEST_EXCHANGE)
    assert await generation(same_browser(browser, there)) == 1
    assert presented(here) == 1


async def test_a_successor_that_the_lock_could_not_take_is_made_of_its_answer_elsewhere() -> None:
    time = Time()
    lock = Forgetful(clock=Clock(read=time))
    here = make_world(time=time, refresh_lock=lock)
    there = another_process(here, refresh_lock=lock)
    browser = await here.signed_in()
    before = dict(browser.cookies)
    time.advance(LONG_AFTER)
    lock.is_down, lock.begin = True, "newest."
    assert await generation(browser) == 1
    time.advance(REMEMBERED_SECONDS)
    lost = there.browser()  # the answer never came to it
    lost.cookies.update(before)
    assert await generation(lost) == 1
    assert presented(here) == 1


async def test_a_provider_that_refuses_once_keeps_no_other_process_waiting() -> None:
    here, there, _ = two_processes("cookie")
    browser = await here.signed_in()
    other = same_browser(browser, there)
    here.op.faults.put("token", ServerError())
    here.time.advance(LONG_AFTER)
    assert (await browser.get("/me")).status_code == 503
    assert await generation(other) == 1
    assert presented(here) == 2


@pytest.mark.parametrize("lock", [None, MemoryRefreshLock()], ids=["no lock", "lock"])
async def test_without_an_answer_that_waits_no_refresh_token_is_presented(
    lock: MemoryRefreshLock | None,
) -> None:
    world = make_world(refresh_lock=lock)
    browser = await world.signed_in()
    world.op.edits.put("token_response", without_refresh_token)
    calls = world.op.record.calls["token"]
    assert outcome(await check(browser)) == ("same_user", "")
    assert world.op.record.calls["token"] == calls + 1, "that of the check"
