"""What happens when a process that refreshes a session dies or stands still.

A process that dies is one whose request to the provider or to the records never continues.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import pytest
from starlette.responses import Response

from fastapi_oidc import Clock, MemoryRefreshLock, MemoryRevocationStore, RevocationRecord
from fastapi_oidc.session import record_hold
from fastapi_oidc.session.records import Advance, Phase, RefreshRecord, Take
from fastapi_oidc.testing import ServerError
from fastapi_oidc.testing.faults import Answer
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LOCAL,
    LONGEST_HOLD,
    RETRY,
    copy_of,
    generation,
    others_have_run,
    refreshes,
    shared_stores,
    until,
)
from tests.oidc.interleaving import Gate, Held, another_process, begun
from tests.oidc.world import Time, World, make_world


def presented(world: World) -> int:
    """How many refresh tokens were presented; one code was exchanged."""
    return world.op.record.calls["token"] - 1


class Records(MemoryRefreshLock):
    """Refresh records that hold replies back, or lose them, as a network does."""

    def __init__(self, time: Time) -> None:
        super().__init__(clock=Clock(read=time))
        self.take_gate: Gate | None = None
        self.gates: dict[Phase, Gate] = {}
        self.lost: list[Phase] = []

    async def take(self, id: str, take: Take, *, lifetime: int) -> RefreshRecord:
        record = await super().take(id, take, lifetime=lifetime)
        gate, self.take_gate = self.take_gate, None
        if gate is not None:
            await gate.passed()
        return record

    async def advance(self, id: str, change: Advance, *, lifetime: int) -> bool:
        gate = self.gates.pop(change.phase, None) if change.phase else None
        if gate is not None:
            await gate.passed()
        moved = await super().advance(id, change, lifetime=lifetime)
        if change.phase in self.lost:
            self.lost.remove(change.phase)
            raise ConnectionError("the reply was lost")
        return moved


def processes_with_records(mode: str) -> tuple[World, World, Records]:
    time = Time()
    records = Records(time)
    shared = shared_stores(mode, time) | {"refresh_lock": records}
    here = make_world(time=time, **shared)
    return here, another_process(here, **shared), records


async def test_process_that_stood_still_after_the_response_is_fenced_off(mode: str) -> None:
    """Others have gone on from the response, and refreshed once more."""
    here, there, _ = processes_with_records(mode)
    browser, held = await here.signed_in(), Held()
    here.time.advance(AFTER_EXPIRY)
    here.op.faults.put("userinfo", held)
    paused = begun(copy_of(browser, here).get("/me"))
    await held.gate.until_reached()
    here.time.advance(LONGEST_HOLD)
    other = copy_of(browser, there)
    assert await generation(other) == 1
    here.time.advance(AFTER_EXPIRY)
    assert await generation(other) == 2
    held.gate.opened.set()
    await paused
    for world in (here, there):
        assert await generation(copy_of(browser, world)) == 2
    assert refreshes(here) == presented(here) == 2


class Fails(Held):
    """A request that fails when the gate is opened, without any effect."""

    async def happen(self, answer: Answer) -> Response:
        await self.gate.passed()
        return await ServerError().happen(answer)


async def test_process_dies_before_it_presents_the_token(mode: str) -> None:
    here, there, records = processes_with_records(mode)
    browser, gate = await here.signed_in(), Gate()
    here.time.advance(AFTER_EXPIRY)
    records.take_gate = gate
    begun(browser.get("/me"))
    await gate.until_reached()
    waiting = begun(copy_of(browser, there).get("/me"))
    await others_have_run()
    assert not waiting.done(), "the first process may still present the token"
    assert presented(here) == 0
    here.time.advance(LONGEST_HOLD)
    assert (await waiting).json()["generation"] == 1
    assert presented(here) == 1


@pytest.mark.parametrize("is_used", [False, True])
async def test_process_dies_before_the_response_comes(mode: str, is_used: bool) -> None:
    """The session is lost if the provider used the token, and only then."""
    here, there, _ = processes_with_records(mode)
    browser, held = await here.signed_in(), Held(first=is_used)
    here.time.advance(AFTER_EXPIRY)
    here.op.faults.put("token", held)
    begun(browser.get("/me"))
    await held.gate.until_reached()
    here.time.advance(LONGEST_HOLD - 1)
    waiting = begun(copy_of(browser, there).get("/me"))
    await others_have_run()
    assert not waiting.done(), "a response can still come"
    assert presented(here) == 1
    here.time.advance(1)
    assert (await waiting).status_code == (401 if is_used else 200)
    assert presented(here) == 2


async def test_process_dies_after_it_kept_the_response(mode: str) -> None:
    """Another process makes the next session of the response that the record has."""
    here, there, _ = processes_with_records(mode)
    browser, held = await here.signed_in(), Held()
    here.time.advance(AFTER_EXPIRY)
    here.op.faults.put("userinfo", held)
    begun(browser.get("/me"))
    await held.gate.until_reached()
    here.time.advance(LONGEST_HOLD)
    assert await generation(copy_of(browser, there)) == 1
    assert presented(here) == 1


async def test_process_dies_after_it_stored_the_next_session(mode: str) -> None:
    """The record does not know of the next session yet; another process makes it again."""
    here, there, records = processes_with_records(mode)
    browser, gate = await here.signed_in(), Gate()
    here.time.advance(AFTER_EXPIRY)
    records.gates[Phase.IDLE] = gate
    begun(browser.get("/me"))
    await gate.until_reached()
    here.time.advance(LONGEST_HOLD)
    assert await generation(copy_of(browser, there)) == 1
    assert presented(here) == 1
    here.time.advance(AFTER_EXPIRY)
    assert await generation(copy_of(browser, there)) == 2


async def test_process_dies_before_its_response_reaches_the_browser(mode: str) -> None:
    here, there, _ = processes_with_records(mode)
    browser = await here.signed_in()
    before = copy_of(browser, there)
    here.time.advance(AFTER_EXPIRY)
    await browser.get("/me")
    assert await generation(before) == 1
    assert presented(here) == 1


async def test_process_that_stood_still_before_sending_presents_nothing(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there, records = processes_with_records(mode)
    browser, gate = await here.signed_in(), Gate()
    here.time.advance(AFTER_EXPIRY)
    records.take_gate = gate
    paused = begun(browser.get("/me"))
    await gate.until_reached()
    now = monotonic()
    monkeypatch.setattr(record_hold, "monotonic", lambda: now + LONGEST_HOLD)
    here.time.advance(LONGEST_HOLD)
    held = Held()
    here.op.faults.put("token", held)
    elsewhere = begun(copy_of(browser, there).get("/me"))
    await held.gate.until_reached()
    gate.opened.set()
    assert (await paused).status_code == 503
    assert presented(here) == 1, "that of the other process"
    held.gate.opened.set()
    assert (await elsewhere).json()["generation"] == 1
    here.time.advance(RETRY)
    assert await generation(browser) == 1


async def test_process_that_stood_still_after_sending_is_fenced_off(mode: str) -> None:
    """Its response belongs to a token that another process has presented once more."""
    here, there, _ = processes_with_records(mode)
    browser, held = await here.signed_in(), Held()
    here.time.advance(AFTER_EXPIRY)
    here.op.faults.put("token", held)
    paused = begun(browser.get("/me"))
    await held.gate.until_reached()
    here.time.advance(LONGEST_HOLD)
    other = copy_of(browser, there)
    assert await generation(other) == 1
    here.time.advance(AFTER_EXPIRY)
    assert await generation(other) == 2
    held.gate.opened.set()
    await paused  # with a token that was used: the provider refuses it
    assert await generation(browser) == await generation(other) == 2


async def test_process_that_stood_still_frees_no_record_of_another(mode: str) -> None:
    """Its request fails while another process waits for the response to its own."""
    here, there, _ = processes_with_records(mode)
    browser, paused, held = await here.signed_in(), Fails(), Held()
    here.time.advance(AFTER_EXPIRY)
    here.op.faults.put("token", paused)
    begun(browser.get("/me"))
    await paused.gate.until_reached()
    here.time.advance(LONGEST_HOLD)
    here.op.faults.put("token", held)
    elsewhere = begun(copy_of(browser, there).get("/me"))
    await held.gate.until_reached()
    paused.gate.opened.set()
    await until(lambda: "session.refresh_postponed" in here.event_names())
    here.time.advance(RETRY)
    waiting = begun(copy_of(browser, here).get("/me"))
    await others_have_run(500)
    assert presented(here) == 2, "one for each process"
    held.gate.opened.set()
    for request in (elsewhere, waiting):
        assert (await request).json()["generation"] == 1


@pytest.mark.parametrize("phase", [Phase.ANSWERED, Phase.IDLE])
async def test_lost_reply_of_the_records_is_asked_for_again(mode: str, phase: Phase) -> None:
    here, there, records = processes_with_records(mode)
    browser = await here.signed_in()
    before = copy_of(browser, there)
    here.time.advance(AFTER_EXPIRY)
    records.lost.append(phase)
    assert await generation(browser) == 1
    await here.oidc.aclose()  # which writes what is owed
    assert await generation(before) == 1
    assert presented(here) == 1


class Revocations(MemoryRevocationStore):
    """A store whose writes never come back."""

    async def revoke(self, record: RevocationRecord, /) -> None:
        await asyncio.Event().wait()


async def test_process_dies_between_the_end_in_the_record_and_the_revocation() -> None:
    time = Time()
    clock = Clock(read=time)
    shared: dict[str, Any] = {"refresh_lock": MemoryRefreshLock(clock=clock)}
    here = make_world(time=time, back_channel_logout_store=Revocations(clock=clock), **shared)
    there = another_process(here, back_channel_logout_store="memory", **shared)
    browser = await here.signed_in()
    copy = copy_of(browser, there)
    dying = begun(browser.post("/auth/logout", data=LOCAL))
    await others_have_run()
    assert not dying.done()
    assert await generation(copy) == 0, "its access token is valid"
    time.advance(AFTER_EXPIRY)
    assert await generation(copy) is None
    assert presented(here) == 0
    dying.cancel()
