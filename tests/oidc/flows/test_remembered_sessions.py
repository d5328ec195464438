"""How long a process remembers what a session became: while a lost answer would cost it."""

from __future__ import annotations

from typing import Any

import pytest

from fastapi_oidc import Clock, MemorySessionStore, OIDCSession
from fastapi_oidc.flows.register import BESIDE_A_STORE, REMEMBERED, Register
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.reference import SessionReference
from tests.oidc.flows.test_refresh import LONG_AFTER, generation, refreshes
from tests.oidc.session.examples import LIFETIME, NOW, User, a_session
from tests.oidc.world import Time, make_world

IDLE = 1800
IN_A_STORE = SessionReference.new()


def successor_of(kept: Kept[User]) -> Kept[User]:
    session = kept.session
    later = session.model_copy(update={"generation": session.generation + 1})
    return Kept(later, kept.reference)


@pytest.mark.parametrize(
    ("reference", "idle_timeout", "seconds"),
    [
        (None, None, LIFETIME),
        (None, IDLE, IDLE),
        (None, 2 * LIFETIME, LIFETIME),
        (IN_A_STORE, None, BESIDE_A_STORE),
        (IN_A_STORE, IDLE, BESIDE_A_STORE),
    ],
)
def test_a_successor_is_remembered_for_as_long_as_somebody_may_come_without_it(
    reference: SessionReference | None, idle_timeout: int | None, seconds: int
) -> None:
    time = Time()
    register: Register[User] = Register(Clock(read=time), idle_timeout=idle_timeout)
    before = Kept(a_session(), reference)
    successor = successor_of(before)
    register.keep(successor)
    time.advance(seconds - 1)
    assert register.newest(before) is successor
    time.advance(1)
    assert register.newest(before) is before


def test_a_use_makes_the_old_cookie_good_for_longer() -> None:
    time = Time()
    register: Register[User] = Register(Clock(read=time), idle_timeout=IDLE)
    before = Kept(a_session())
    register.keep(successor_of(before))
    time.advance(IDLE - 1)
    seen = successor_of(before).session.model_copy(update={"last_seen_at": NOW + IDLE - 1})
    register.keep(Kept(seen))
    time.advance(IDLE - 1)
    assert register.newest(before).session is seen


def test_one_that_the_browser_has_shown_is_remembered_for_a_minute() -> None:
    time = Time()
    register: Register[User] = Register(Clock(read=time))
    before = Kept(a_session())
    successor = successor_of(before)
    register.keep(successor)
    assert register.seen(successor) is successor
    time.advance(REMEMBERED - 1)
    assert register.newest(before) is successor
    time.advance(1)
    assert register.newest(before) is before


async def test_a_cookie_whose_successor_was_lost_on_its_way_is_good_to_the_sessions_end() -> None:
    world = make_world()
    browser = await world.signed_in()
    old = dict(browser.cookies)
    world.time.advance(LONG_AFTER)
    assert await generation(browser) == 1
    browser.cookies.clear()
    browser.cookies.update(old)
    world.time.advance(LIFETIME - LONG_AFTER - 10)
    assert await generation(browser) == 2
    assert refreshes(world) == 2


class Forgetful(MemorySessionStore[Any]):
    """Loses its last writes, as a replica does that is promoted too early."""

    def __init__(self, time: Time) -> None:
        super().__init__(clock=Clock(read=time))
        self._before: dict[str, OIDCSession[Any]] = {}

    async def replace(self, id: str, session: OIDCSession[Any], /) -> bool:
        before = await self.get(id)
        if before is not None:
            self._before[id] = before
        return await super().replace(id, session)

    async def lose(self) -> None:
        for id, session in self._before.items():
            await self.set(id, session)


async def test_a_row_that_a_failover_lost_is_made_up_for_by_the_process_that_refreshed_it() -> None:
    time = Time()
    store = Forgetful(time)
    world = make_world(session_store=store, time=time)
    browser = await world.signed_in()
    time.advance(LONG_AFTER)
    assert await generation(browser) == 1
    await store.lose()
    time.advance(BESIDE_A_STORE - 1)
    assert await generation(browser) == 2
    assert refreshes(world) == 2


async def test_a_session_in_a_store_is_found_there_when_the_process_has_forgotten_it() -> None:
    world = make_world(session_store="memory")
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    assert await generation(browser) == 1
    world.time.advance(BESIDE_A_STORE)
    assert await generation(browser) == 2
    assert refreshes(world) == 2
