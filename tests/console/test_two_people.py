"""Two people at one machine: neither undoes without knowing what the other has done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from examples.console.changes import CHANGES
from examples.console.events import Person, on_behalf_of
from examples.console.meanwhile import changed_meanwhile, fingerprint
from examples.console.monitors import Monitor
from generated_vmm.testing import SimulatedMonitor
from tests.console.browser import Browser
from tests.console.running import ALICE, RunningConsole, signed_in

MEMORY = "machine_config.mem_size_mib"
SIZE = ("PUT", "/machine-config")
CAROL, DAVE = Person("carol", "Carol"), Person("dave", "Dave")


@pytest.fixture
def other(console: RunningConsole) -> Iterator[Browser]:
    """Another browser of an admin."""
    with signed_in(console, ALICE) as browser:
        yield browser


def sizes(console: RunningConsole) -> list[object]:
    """The sizes that the monitor was sent, in their order."""
    calls = console.monitor.calls
    sent = [call.json() for call in calls if (call.method, call.path) == SIZE]
    return [body["mem_size_mib"] for body in sent if isinstance(body, dict)]


def test_who_saves_second_is_told_and_may_save_again(
    alice: Browser, other: Browser, console: RunningConsole
) -> None:
    alice.open("/machines/demo")
    other.open("/machines/demo")
    alice.click("Save setup", {MEMORY: "256"})
    other.click("Save setup", {MEMORY: "512"})
    assert other.status == 409
    assert "You have changed this elsewhere meanwhile." in other.text
    assert "What you typed is still here: save again to replace it." in other.text
    assert other.field(MEMORY) == "512"
    assert sizes(console) == [256]
    other.click("Save setup")
    assert "Setup saved." in other.text
    assert sizes(console) == [256, 512]


def test_what_is_changed_in_another_form_is_no_obstacle(
    alice: Browser, other: Browser, console: RunningConsole
) -> None:
    alice.open("/machines/demo")
    other.open("/machines/demo/memory")
    other.click("Save balloon")
    alice.click("Save setup", {MEMORY: "256"})
    assert "Setup saved." in alice.text
    assert sizes(console) == [256]


def test_metadata_that_somebody_else_saved_is_not_lost(alice: Browser, other: Browser) -> None:
    for browser in (alice, other):
        browser.open("/machines/demo/metadata")
    alice.click("Save document", {"document.contents": '{"a": 1}'})
    other.click("Save document", {"document.contents": '{"b": 2}'})
    assert other.status == 409
    alice.open("/machines/demo/metadata")
    assert '{ "a": 1 }' in alice.text


@pytest.fixture
async def monitor(tmp_path: Path) -> AsyncIterator[Monitor]:
    with SimulatedMonitor(tmp_path / "vm.socket", check_files=False) as simulated:
        monitor = Monitor("vm", str(simulated.socket_path), {})
        yield monitor
        await monitor.close()


async def meanwhile(monitor: Monitor, by: Person | None) -> str:
    """What Dave is told about his form of the setup after a change by somebody."""
    setup = CHANGES["setup"]
    seen = fingerprint(setup, await monitor.look(), "")
    assert await changed_meanwhile(monitor, setup, "", seen) == ""
    await monitor.control.machine_config.set(vcpu_count=1, mem_size_mib=256)
    if by is not None:
        with on_behalf_of(by):
            monitor.events.add("Setup saved.")
    with on_behalf_of(DAVE):
        monitor.events.add("Tried to start a machine.", "There is no kernel.")
        return await changed_meanwhile(monitor, setup, "", seen)


@pytest.mark.parametrize(
    ("by", "told"),
    [
        (CAROL, "Carol has changed this meanwhile. "),
        (DAVE, "You have changed this elsewhere meanwhile. "),
        (None, "Somebody has changed this meanwhile. "),
    ],
)
async def test_it_is_told_who_changed_it(monitor: Monitor, by: Person | None, told: str) -> None:
    assert (await meanwhile(monitor, by)).startswith(told)


async def test_a_monitor_that_has_gone_is_told_by_the_change_itself(tmp_path: Path) -> None:
    monitor = Monitor("vm", str(tmp_path / "vm.socket"), {})
    assert await changed_meanwhile(monitor, CHANGES["setup"], "", "seen") == ""
    await monitor.close()
