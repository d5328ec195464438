"""A turn is for a process's own token calls: while another process is waited for, somebody else
has it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from fastapi_oidc import MemoryRefreshLock
from fastapi_oidc.flows import refresher
from fastapi_oidc.flows.refresh_outcomes import Renewed
from fastapi_oidc.once import Turns
from fastapi_oidc.session.keeper import Kept
from tests.oidc.flows.test_other_processes import two_processes
from tests.oidc.flows.test_refresh import LONG_AFTER, generation, refreshes
from tests.oidc.flows.test_refresher import (
    others_have_come,
    signed_in,
    still_under_way,
    successor,
)
from tests.oidc.interleaving import Held, begun, same_browser

AS_LONG_AS_IT_TAKES_TO_WAIT = 100


async def test_a_turn_is_given_back_while_another_process_refreshes_the_session() -> None:
    here, there = two_processes("session_store", "refresh_lock")
    here.oidc.site.refresher._turns = Turns(1)
    alice, bob = await here.signed_in(), await here.signed_in("bob")
    held = Held(first=True)
    here.op.faults.put("token", held)
    here.time.advance(LONG_AFTER)
    elsewhere = begun(same_browser(alice, there).get("/me"))
    await held.gate.until_reached()
    waiting = begun(alice.get("/me"))
    for _ in range(AS_LONG_AS_IT_TAKES_TO_WAIT):
        await asyncio.sleep(0)
    async with asyncio.timeout(20):
        assert await generation(bob) == 1
    assert not waiting.done()
    held.gate.opened.set()
    assert [answer.status_code for answer in (await waiting, await elsewhere)] == [200, 200]
    assert refreshes(here) == 2


@pytest.mark.parametrize("lock", [None, MemoryRefreshLock()], ids=["no lock", "lock"])
async def test_nothing_is_made_out_of_turn(lock: MemoryRefreshLock | None) -> None:
    site = await signed_in(refresh_lock=lock)
    site.refresher._turns = turns = Turns(1)
    given: list[Kept[Any]] = []

    async def noted(current: Kept[Any]) -> Kept[Any]:
        given.append(current)
        return await successor(current)

    async with turns.taken():
        request = site.begun(noted)
        await others_have_come()
        assert given == []
    assert isinstance(await request, Renewed)
    assert len(given) == 1


async def test_a_request_waits_for_its_turn_only_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = await signed_in()
    monkeypatch.setattr(refresher, "LONGEST_WAIT", 0.0)
    party = site.world.oidc.site.party
    patient = replace(party.policy, provider_timeout=1000.0)
    site.refresher._party = replace(party, policy=patient)
    site.refresher._turns = turns = Turns(1)
    async with turns.taken(), asyncio.timeout(20):
        outcome = await site.refresher.renew(site.kept)
    assert outcome == still_under_way(site)
    await site.refresher.aclose()
