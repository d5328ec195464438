"""A turn is for a process's own token calls: while another process is waited for, somebody else
has it."""

from __future__ import annotations

import asyncio

from fastapi_oidc.once import Turns
from tests.oidc.flows.test_other_processes import two_processes
from tests.oidc.flows.test_refresh import LONG_AFTER, generation, refreshes
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
