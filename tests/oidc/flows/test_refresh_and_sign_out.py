"""A sign-out during a refresh wins, here and in other processes."""

from __future__ import annotations

import pytest

from fastapi_oidc import Clock, MemoryStore
from fastapi_oidc.session.store import Cell, Stored
from fastapi_oidc.testing import TokenRevoked
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LOCAL,
    copy_of,
    generation,
    stores_of,
)
from tests.oidc.interleaving import Gate, Held, another_process, begun
from tests.oidc.world import Time, World, make_world

SHARED = pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another process"])


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

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
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
