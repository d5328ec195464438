"""A store that loses a reply repeats the command: an access is as after one that is answered."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from fastapi_oidc import Clock
from fastapi_oidc.broker import Approval, Use, guest
from fastapi_oidc.broker.access import Asked
from fastapi_oidc.broker.accesses import MOST_WAITING
from tests.oidc.broker.guests import NAME
from tests.oidc.broker.rig import LossyStore, Rig, broker_world, rigged, store_of
from tests.oidc.broker.test_approvals import asked, decided, posted
from tests.oidc.flows.steps import until
from tests.oidc.interleaving import Gate
from tests.oidc.world import Time


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    monkeypatch.setattr(guest, "LOOK_SECONDS", 0.01)
    time = Time()
    store = LossyStore(clock=Clock(read=time))
    async with rigged(broker_world(store, time), approve=["POST /events"]) as rig:
        rig.world.app.include_router(rig.broker.router)
        yield rig


async def lost(rig: Rig, command: Awaitable[Any]) -> None:
    store_of(rig).loses = True
    await command
    assert not store_of(rig).loses


def approval(rig: Rig) -> Approval:
    asked = Asked(name=NAME, method="POST", path="/events", url=rig.api.url, headers=())
    return rig.broker._accesses.approval_of(rig.access, asked, b"", 60)


async def test_a_cost_counts_once(rig: Rig) -> None:
    accesses = rig.broker._accesses
    await lost(rig, accesses.record(rig.access, "one", Use(1, 2, 3, 4)))
    await accesses.record(rig.access, "two", Use(1, 2, 3, 5))
    await lost(rig, accesses.record(rig.access, "one", Use(2, 4, 6, 8)))
    await accesses.record(rig.access, "one", Use(1, 2, 3, 4))  # a late one
    assert (await rig.broker.check(rig.access)).use == (3, 6, 9, 8)


async def test_a_cost_counts_once_if_its_record_was_cancelled_too_late(rig: Rig) -> None:
    calls, store = rig.broker.app(rig.access).calls, store_of(rig)
    calls.count(Use(1, 2, 3, 4))
    swap, gate = store.swap, Gate()

    async def swapped(*command: Any) -> Any:
        found = await swap(*command)
        if found is None:
            await gate.passed()
        return found

    store.swap = swapped
    record = asyncio.create_task(calls.record())
    await gate.until_reached()
    record.cancel()
    await asyncio.wait([record])
    del store.swap
    await calls.record()
    assert (await rig.broker.check(rig.access)).use == (1, 2, 3, 4)


async def test_a_call_waits_once(rig: Rig) -> None:
    for number in range(1, MOST_WAITING + 1):
        await lost(rig, rig.broker._accesses.ask(rig.access, approval(rig)))
        assert len((await rig.broker.check(rig.access)).waiting) == number


@pytest.mark.parametrize(("decision", "status"), [("approve", 200), ("refuse", 403)])
async def test_a_decision_is_made_and_told_once(rig: Rig, decision: str, status: int) -> None:
    call = posted(rig)
    id = (await asked(rig)).id
    page = await rig.browser.get(f"/approvals/{id}")
    store_of(rig).loses = True
    assert await decided(rig, id, page, decision) == 200
    assert (await call).status_code == status
    assert rig.world.event_names().count("access.approval_decided") == 1


async def test_a_guest_that_leaves_while_its_question_is_stored_does_not_wait(rig: Rig) -> None:
    store, gate = store_of(rig), Gate()
    swap = store.swap

    async def swapped(*command: Any) -> Any:
        found = await swap(*command)
        if found is None and "access:" in command[0] and not gate.reached.is_set():
            await gate.passed()
        return found

    store.swap = swapped
    call = posted(rig)
    await gate.until_reached()
    assert (await rig.broker.check(rig.access)).waiting
    call.cancel()
    await until(lambda: bool(rig.trail))
    assert not (await rig.broker.check(rig.access)).waiting
