"""A machine with which something is done, a full disk, and questions without script."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from threading import Event

import pytest

from examples.console.hosted import HostedMonitor
from examples.console.records import Records, RecordsError
from generated_vmm.guest import AsyncGuest, GuestError
from generated_vmm.machines import Operation as MachineOperation
from generated_vmm.operation import Operation
from generated_vmm.transport import AsyncUnixChannel, HttpAnswer
from tests.console.browser import PATIENCE, Browser
from tests.console.machines import create, delete, do
from tests.console.running import ALICE, RunningConsole, signed_in


def test_an_operation_that_ends_while_a_page_is_made_breaks_none(
    alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(alice, "origin")
    known = MachineOperation(kind="clone", machine="0" * 12, name="origin")
    reads = cycle([known, None])
    monkeypatch.setattr(HostedMonitor, "operation", property(lambda _: next(reads)))
    for path in ("/", "/machines/origin", "/machines/origin/devices", "/machines/origin/state"):
        for _ in range(2):
            alice.open(path)
            assert alice.status == 200
            next(reads)  # the other of the two is first
    monkeypatch.undo()


def test_a_resume_is_told_as_done_and_what_the_agent_could_not_do_beside_it(
    alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(guest: AsyncGuest) -> None:
        raise GuestError("no response")

    monkeypatch.setattr(AsyncGuest, "info", silent)
    create(alice, "origin", new__agent="true")
    do(alice, "origin", "overview", "Pause", {})
    do(alice, "origin", "overview", "Resume", {})
    assert "origin Running" in alice.text
    assert "The guest's agent failed: no response" in alice.text


def test_a_machine_that_is_cloned_is_busy_and_nothing_else_is_offered(
    alice: Browser, console: RunningConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(alice, "origin")
    begun, looked, send = Event(), Event(), AsyncUnixChannel.exchange

    async def wait(
        self: AsyncUnixChannel, operation: Operation[object], seconds: float | None
    ) -> HttpAnswer:
        if operation.path == "/snapshot/create":
            begun.set()
            await asyncio.to_thread(looked.wait, PATIENCE)
        return await send(self, operation, seconds)

    monkeypatch.setattr(AsyncUnixChannel, "exchange", wait)
    with signed_in(console, ALICE) as other, ThreadPoolExecutor(1) as pool:
        other.open("/machines/origin")
        stop = other.form_of("/origin/stop")
        cloned = pool.submit(do, alice, "origin", "snapshots", "Clone", {"clone.name": "copy"})
        assert begun.wait(PATIENCE)
        other.post("/machines/origin/stop", {**stop, "confirmed": "yes"})
        assert other.status == 409
        assert "origin is busy: clone copy by Alice Admin since" in other.text
        other.open("/machines/origin")
        assert "origin Busy" in other.text
        assert not any(other.has_button(one) for one in ("Stop", "Pause", "Delete", "Clone"))
        other.open("/")
        assert "copy Busy clone by Alice Admin since" in other.text
        assert "copy" not in other.page.links
        looked.set()
        cloned.result(PATIENCE)
    assert "copy Running" in alice.text
    alice.open("/machines/origin")
    assert "origin Running" in alice.text


def test_what_cannot_be_recorded_is_not_done(
    alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(alice, "full")

    def refuse(*_: object) -> int:
        raise RecordsError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Records, "begin_event", refuse)
        alice.click("Pause")
        assert alice.status == 503
        assert "Nothing was done: it could not be recorded." in alice.text
        alice.open("/new")
        alice.click("Create machine", {"new.name": "none"})
        assert alice.status == 503
    alice.open("/machines/full")
    assert "full Running" in alice.text
    alice.open("/")
    assert "none" not in alice.page.links


@pytest.mark.parametrize("button", ["Stop", "Ctrl+Alt+Del"])
def test_the_console_asks_without_script(alice: Browser, button: str) -> None:
    create(alice, "asked")
    alice.click(button, sure=False)
    assert alice.has_button("Yes: ")
    alice.open("/machines/asked")
    assert "asked Running" in alice.text


def test_a_machine_does_not_have_the_events_of_another_one_of_its_name(alice: Browser) -> None:
    create(alice, "again")
    alice.click("Pause")
    assert "The machine is paused." in alice.text
    delete(alice, "again")
    create(alice, "again")
    alice.open("/machines/again")
    assert "The machine is paused." not in alice.text
    alice.open("/events?machine=again")
    assert "The machine is paused." in alice.text
