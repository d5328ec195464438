"""A sign-out during a refresh wins, here and in other processes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import (
    OIDC,
    Clock,
    MemoryRefreshLock,
    MemorySessionStore,
    OIDCSession,
    SessionStore,
)
from fastapi_oidc.session.records import Advance, Phase
from fastapi_oidc.testing import TokenRevoked, sign_in
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LOCAL,
    copy_of,
    generation,
    shared_stores,
    two_processes,
)
from tests.oidc.interleaving import Gate, Held, another_process, begun
from tests.oidc.world import LOGIN_URL, Time, World, make_world

SHARED = pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another process"])


async def test_refused_refresh_of_a_replaced_session_leaves_the_new_cookie_alone(
    world: World,
) -> None:
    browser, held = await world.signed_in(), Held()
    other_tab = copy_of(browser, world)
    world.op.faults.put("token", held)
    world.time.advance(AFTER_EXPIRY)
    refreshing = begun(other_tab.get("/me"))
    await held.gate.until_reached()
    await sign_in(browser, f"{LOGIN_URL}&prompt=login", user="bob")
    held.gate.opened.set()
    answer = await refreshing
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers, "it would come after the cookie of the new login"


@SHARED
@pytest.mark.parametrize("first", [False, True], ids=["before", "after"])
async def test_sign_out_while_the_provider_responds_wins(
    processes: tuple[World, World], elsewhere: bool, first: bool
) -> None:
    """Before and after the provider has used the refresh token."""
    here, there = processes
    browser, held = await here.signed_in(), Held(first=first)
    here.op.faults.put("token", held)
    here.time.advance(AFTER_EXPIRY)
    refreshing = begun(copy_of(browser, here).get("/me"))
    await held.gate.until_reached()
    await copy_of(browser, there if elsewhere else here).post("/auth/logout", data=LOCAL)
    revoked = len(here.op.record.of(TokenRevoked))
    held.gate.opened.set()
    answer = await refreshing
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    if first:
        assert len(here.op.record.of(TokenRevoked)) == revoked + 1, "the new tokens are given back"
    for seconds in (0, 300):
        here.time.advance(seconds)
        for world in processes:
            assert await generation(copy_of(browser, world)) is None


class SlowStore(MemorySessionStore[Any]):
    """Replaces a row at once, and returns when the gate is opened."""

    gate: Gate | None = None

    async def replace(self, id: str, session: OIDCSession[Any], /) -> bool:
        replaced = await super().replace(id, session)
        if self.gate is not None:
            await self.gate.passed()
        return replaced


class SlowRecords(MemoryRefreshLock):
    """Moves a record on to the next generation, and returns when the gate is opened."""

    gate: Gate | None = None

    async def advance(self, id: str, change: Advance, *, lifetime: int) -> bool:
        moved = await super().advance(id, change, lifetime=lifetime)
        if self.gate is not None and change.phase is Phase.IDLE:
            await self.gate.passed()
        return moved


@SHARED
@pytest.mark.parametrize("slow", ["store", "records"])
async def test_sign_out_while_the_next_session_is_stored_wins(slow: str, elsewhere: bool) -> None:
    time, gate = Time(), Gate()
    clock = Clock(read=time)
    shared = shared_stores("cookie", time)
    stored: Any = SlowRecords(clock=clock)
    shared["refresh_lock"] = stored
    if slow == "store":
        stored = shared["session_store"] = SlowStore(clock=clock)
    here = make_world(time=time, **shared)
    there = another_process(here, **shared)
    browser = await here.signed_in()
    stored.gate = gate
    time.advance(AFTER_EXPIRY)
    refreshing = begun(copy_of(browser, here).get("/me"))
    await gate.until_reached()
    await copy_of(browser, there if elsewhere else here).post("/auth/logout", data=LOCAL)
    gate.opened.set()
    answer = await refreshing
    assert "set-cookie" not in answer.headers
    if not elsewhere:
        assert answer.status_code == 401
    for world in (here, there):
        assert await generation(copy_of(browser, world)) is None


class ThreeMethods(SessionStore[Any]):
    """A dictionary whose rows are set when the gate is opened; `replace` takes two steps."""

    gate: Gate | None = None

    def __init__(self) -> None:
        self.rows: dict[str, OIDCSession[Any]] = {}

    async def get(self, id: str, /) -> OIDCSession[Any] | None:
        return self.rows.get(id)

    async def set(self, id: str, session: OIDCSession[Any], /) -> None:
        if self.gate is not None:
            await self.gate.passed()
        self.rows[id] = session

    async def delete(self, id: str, /) -> None:
        self.rows.pop(id, None)


@pytest.mark.parametrize(
    ("elsewhere", "has_records"), [(False, False), (False, True), (True, True)]
)
async def test_sign_out_while_a_store_sets_a_row_leaves_no_row(
    elsewhere: bool, has_records: bool
) -> None:
    store = ThreeMethods()
    lock = MemoryRefreshLock() if has_records else None
    shared: dict[str, Any] = {"session_store": store, "refresh_lock": lock}
    here = make_world(back_channel_logout_store=None, **shared)
    there = another_process(here, **shared)
    browser = await here.signed_in()
    gate = store.gate = Gate()
    here.time.advance(AFTER_EXPIRY)
    refreshing = begun(copy_of(browser, here).get("/me"))
    await gate.until_reached()
    await copy_of(browser, there if elsewhere else here).post("/auth/logout", data=LOCAL)
    gate.opened.set()
    assert (await refreshing).status_code == 401
    assert store.rows == {}


async def test_row_deleted_by_the_application_is_not_stored_again() -> None:
    ids: set[str] = set()

    class Watched(MemorySessionStore[Any]):
        async def set(self, id: str, session: OIDCSession[Any], /) -> None:
            ids.add(id)
            await super().set(id, session)

    store, held = Watched(), Held()
    world = make_world(session_store=store)
    browser = await world.signed_in()
    world.op.faults.put("token", held)
    world.time.advance(AFTER_EXPIRY)
    refreshing = begun(browser.get("/me"))
    await held.gate.until_reached()
    for id in ids:
        await store.delete(id)
    held.gate.opened.set()
    assert (await refreshing).status_code == 401
    assert [await store.get(id) for id in ids] == [None]


async def test_clear_session_during_a_refresh_wins(mode: str) -> None:
    gate = Gate()

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/clear")
        async def clear(request: Request) -> None:
            await gate.passed()
            oidc.clear_session(request)

    here, there = two_processes(mode, mount=mount)
    browser = await here.signed_in()
    clearing = begun(browser.get("/clear"))
    await gate.until_reached()
    held = Held(first=True)
    here.op.faults.put("token", held)
    here.time.advance(AFTER_EXPIRY)
    refreshing = begun(copy_of(browser, here).get("/me"))
    await held.gate.until_reached()
    gate.opened.set()
    assert "session=; Max-Age=0" in (await clearing).headers["set-cookie"]
    held.gate.opened.set()
    answer = await refreshing
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    assert await generation(copy_of(browser, there)) is None


async def test_revocation_during_a_refresh_wins(processes: tuple[World, World]) -> None:
    here, there = processes
    browser, held = await here.signed_in(), Held(first=True)
    here.op.faults.put("token", held)
    here.time.advance(AFTER_EXPIRY)
    refreshing = begun(browser.get("/me"))
    await held.gate.until_reached()
    await there.oidc.revoke(sub="alice")
    held.gate.opened.set()
    await refreshing
    for seconds in (0, 300):
        here.time.advance(seconds)
        assert await asyncio.gather(
            *(generation(copy_of(browser, world)) for world in processes)
        ) == [None, None]
