"""A sign-out during a refresh wins, here and in other processes."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import OIDC, Clock, MemoryStore
from fastapi_oidc.flows.sessions import row_key
from fastapi_oidc.session.store import Cell, Found
from fastapi_oidc.testing import TokenRevoked, sign_in
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LOCAL,
    copy_of,
    generation,
    stores_of,
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


class LateReply(MemoryStore):
    """Its reply to the write `late_at` comes when the gate is opened."""

    gate, late_at = Gate(), 0

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Found | None:
        found = await super().swap(key, before, after)
        if before is not None and found is None:
            self.late_at -= 1
            if self.late_at == 0:
                await self.gate.passed()
        return found


@SHARED
@pytest.mark.parametrize("write", [1, 2, 3], ids=["taken", "response", "next session"])
async def test_sign_out_while_a_step_of_a_refresh_is_stored_wins(
    mode: str, elsewhere: bool, write: int
) -> None:
    """It is stored, and the reply that says so comes after the sign-out."""
    time = Time()
    store = LateReply(clock=Clock(read=time))
    store.gate = Gate()
    shared = stores_of(mode, store)
    here = make_world(time=time, **shared)
    there = another_process(here, **shared)
    browser = await here.signed_in()
    copies = [copy_of(browser, world) for world in (here, there)]
    time.advance(AFTER_EXPIRY)
    store.late_at = write
    refreshing = begun(copies[0].get("/me"))
    await store.gate.until_reached()
    await copy_of(browser, there if elsewhere else here).post("/auth/logout", data=LOCAL)
    store.gate.opened.set()
    assert "set-cookie" not in (await refreshing).headers
    assert [await generation(copy) for copy in copies] == [None, None]


async def test_row_deleted_by_the_application_is_not_stored_again() -> None:
    store, held = MemoryStore(), Held()
    world = make_world(session_store=store)
    browser = await world.signed_in()
    world.op.faults.put("token", held)
    world.time.advance(AFTER_EXPIRY)
    refreshing = begun(browser.get("/me"))
    await held.gate.until_reached()
    key = f"oidc:{row_key(str(world.events[-1].session_id))}"
    await store.move(key, lambda value, _: Cell(b"", 0))
    held.gate.opened.set()
    assert (await refreshing).status_code == 401
    assert list(await store.read([key])) == [b""]


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
