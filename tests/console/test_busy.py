"""A machine with which something is done, a full disk, and questions without script."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from threading import Event

import pytest

from examples.console.account import User
from examples.console.carry_out import carry_out
from examples.console.changes import CHANGES, Change
from examples.console.changes.change import Parsed
from examples.console.hosted import HostedMonitor
from examples.console.monitors import Monitor
from examples.console.records import Person, Records, RecordsError
from generated_vmm.guest import AsyncGuest, GuestError
from generated_vmm.machines import Operation as MachineOperation
from generated_vmm.operation import Operation
from generated_vmm.testing import SimulatedMonitor
from generated_vmm.transport import AsyncUnixChannel, HttpAnswer
from tests.console.browser import PATIENCE, Browser, create, delete, do
from tests.console.running import ALICE, BOB, RunningConsole, signed_in


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
        answer = await send(self, operation, seconds)
        if operation.path == "/snapshot/create":
            begun.set()
            await asyncio.to_thread(looked.wait, PATIENCE)
        return answer

    monkeypatch.setattr(AsyncUnixChannel, "exchange", wait)
    with (
        signed_in(console, ALICE) as other,
        signed_in(console, BOB) as bob,
        ThreadPoolExecutor(1) as pool,
    ):
        other.open("/machines/origin")
        stop = other.form_of("/origin/stop")
        cloned = pool.submit(do, alice, "origin", "snapshots", "Clone", {"clone.name": "copy"})
        assert begun.wait(PATIENCE)
        other.post("/machines/origin/stop", {**stop, "confirmed": "yes"})
        other.require(409, "origin is busy: clone copy by Alice Admin since")
        other.open("/machines/origin", sees="origin Busy")
        assert not any(other.has_button(one) for one in ("Stop", "Pause", "Delete", "Clone"))
        other.open("/", sees="copy Busy clone by Alice Admin since")
        assert "copy" not in other.page.links
        for _ in range(2):  # also after a reload
            bob.open("/", sees="clone copy by Alice Admin since")
            assert "(writes the memory)" in bob.text
            assert "<progress" in bob.body
        looked.set()
        cloned.result(PATIENCE)
    assert "copy Running" in alice.text
    alice.open("/")
    assert "<progress" not in alice.body
    alice.open("/machines/origin", sees="origin Running")


def test_what_cannot_be_recorded_is_not_done(
    alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(alice, "full")

    def refuse(*_: object) -> int:
        raise RecordsError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Records, "begin_event", refuse)
        alice.click("Pause")
        alice.require(503, "Nothing was done: it could not be recorded.")
        alice.open("/new")
        alice.click("Create machine", {"new.name": "none"})
        assert alice.status == 503
    alice.open("/machines/full", sees="full Running")
    alice.open("/")
    assert "none" not in alice.page.links


@pytest.mark.parametrize("button", ["Stop", "Ctrl+Alt+Del"])
def test_the_console_asks_without_script(alice: Browser, button: str) -> None:
    create(alice, "asked")
    alice.click(button, sure=False)
    assert alice.has_button("Yes: ")
    alice.open("/machines/asked", sees="asked Running")


def test_a_machine_does_not_have_the_events_of_another_one_of_its_name(alice: Browser) -> None:
    create(alice, "again")
    alice.click("Pause", sees="The machine is paused.")
    delete(alice, "again")
    create(alice, "again")
    alice.open("/machines/again")
    assert "The machine is paused." not in alice.text
    alice.open("/events?machine=again", sees="The machine is paused.")


# Two people at one machine: neither undoes without knowing what the other has done


MEMORY = "machine_config.mem_size_mib"
ADMIN = User(sub="alice", name="Alice", roles=("admin",))
CAROL, DAVE = Person("carol", "Carol"), Person("dave", "Dave")


@pytest.fixture
def other(console: RunningConsole) -> Iterator[Browser]:
    """Another browser of an admin."""
    with signed_in(console, ALICE) as browser:
        yield browser


def size(console: RunningConsole) -> int | None:
    """The memory that the machine gets."""
    configured = console.machine().definition.configuration.machine_config
    return configured.mem_size_mib if configured else None


def test_who_saves_second_is_told_and_may_save_again(
    alice: Browser, other: Browser, console: RunningConsole
) -> None:
    alice.open("/machines/demo")
    other.open("/machines/demo")
    alice.click("Save setup", {MEMORY: "256"})
    other.click("Save setup", {MEMORY: "512"})
    assert other.status == 409
    assert re.search(
        r"You have changed this elsewhere at \d\d:\d\d:\d\d UTC: Setup saved\.", other.text
    )
    assert "What you typed is still here: save again to replace it." in other.text
    assert other.field(MEMORY) == "512"
    assert size(console) == 256
    other.click("Save setup", sees="Setup saved.")
    assert size(console) == 512


def test_what_is_changed_in_another_form_is_no_obstacle(
    alice: Browser, other: Browser, console: RunningConsole
) -> None:
    alice.open("/machines/demo")
    other.open("/machines/demo/memory")
    other.click("Save limit")
    alice.click("Save setup", {MEMORY: "256"}, sees="Setup saved.")
    assert size(console) == 256


def test_a_machine_that_was_started_meanwhile_is_not_deleted(
    alice: Browser, other: Browser
) -> None:
    create(alice, "stale", new__start="")
    other.open("/machines/stale")
    alice.click("Start")
    other.click("Delete")
    other.require(409, "stale was Not started on this page and is Running now.")
    assert re.search(r"You did it elsewhere at [\d:]+ UTC: The machine is running\.", other.text)
    assert "stale Running" in other.text
    assert not other.has_button("Delete")


def test_a_machine_that_was_started_anew_is_not_stopped_by_an_old_page(
    alice: Browser, other: Browser
) -> None:
    create(alice, "anew")
    other.open("/machines/anew")
    alice.click("Stop")
    alice.click("Start")
    other.click("Stop")
    other.require(409, "anew has been started anew since this page was made.")
    other.click("Stop", sees="anew Ended")


@pytest.mark.parametrize("page", ["", "|||", "Running||nan", "Running||1e99", "Running"])
def test_a_press_that_no_page_shows_does_nothing(
    alice: Browser, console: RunningConsole, page: str
) -> None:
    alice.open("/machines/demo")
    alice.click("Save setup", {"page": page})
    alice.require(409, "Nothing was done")
    assert size(console) is None


# Changes of one machine wait for each other, and those of its process for none


@dataclass
class Work:
    """A change that goes on until it may end."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def act(self, monitor: Monitor, parsed: Parsed) -> None:
        self.begun.set()
        await self.may_end.wait()

    def change(self, *, at_once: bool = False) -> Change:
        return replace(CHANGES["start"], act=self.act, unless=lambda machine: "", at_once=at_once)


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Monitor]:
    with SimulatedMonitor(tmp_path / "vm.socket") as simulated:
        monitor = Monitor("demo", str(simulated.socket_path))
        yield monitor
        monitor.records.close()


async def broken(monitor: Monitor, parsed: Parsed) -> None:
    raise KeyError


async def test_what_came_of_a_change_is_in_the_trail_whatever_it_raises(monitor: Monitor) -> None:
    with pytest.raises(KeyError):
        await carry_out(monitor, replace(Work().change(), act=broken), {}, ADMIN)
    (event,) = monitor.events.latest(9)
    assert (event.what, event.refused) == ("Tried to start a machine.", "It was cut off.")
    assert not event.pending
    await monitor.close()


async def test_a_change_waits_for_the_one_before_and_a_stop_for_none(monitor: Monitor) -> None:
    first, second, stop = works = Work(), Work(), Work()
    tasks = list[asyncio.Task[object]]()

    def want(work: Work, *, at_once: bool = False) -> None:
        tasks.append(
            asyncio.create_task(carry_out(monitor, work.change(at_once=at_once), {}, ADMIN))
        )

    want(first)
    await first.begun.wait()
    want(second)
    want(stop, at_once=True)
    await stop.begun.wait()
    assert not second.begun.is_set()
    for work in works:
        work.may_end.set()
    assert await asyncio.gather(*tasks) == [None] * 3
    assert [event.what for event in monitor.events.latest(9)] == [CHANGES["start"].done] * 3
    assert [name for name, change in CHANGES.items() if change.at_once] == ["stop"]
    await monitor.close()
