"""Machines in the console, with simulated monitors or with the real one that is named.

`FIRECRACKER_BIN` and `KERNEL` name the real one; its guest prints `guest serves` when its drivers
are up. With `JAILER_BIN` it is played in jails too, which need root.
"""

import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from generated_vmm.operation import Operation
from generated_vmm.process import AsyncMonitor
from generated_vmm.transport import AsyncUnixChannel, HttpAnswer
from tests.console.browser import PATIENCE, Browser, create, do
from tests.console.running import (
    MachineSettings,
    RunningConsole,
    hosting_console,
    pid_of,
    signed_in,
)

CAN_JAIL = os.environ.get("FIRECRACKER_BIN") and os.environ.get("JAILER_BIN") and not os.geteuid()


@pytest.fixture(scope="module", params=["", *(["in a jail"] if CAN_JAIL else [])])
def files(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> MachineSettings:
    """A program, a kernel and a disk: the real ones, or those that the simulated monitor takes."""
    disk = tmp_path_factory.mktemp("disk") / "disk"
    disk.write_bytes(bytes(1 << 20))
    program = os.environ.get("FIRECRACKER_BIN")
    if not program:
        return {"kernel": str(disk), "rootfs": str(disk)}
    kernel, found = os.environ.get("KERNEL", ""), shutil.which(program)
    if found is None:
        pytest.fail(f"FIRECRACKER_BIN names no program: {program}")
    if not kernel or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        pytest.skip("not run: a guest of the real monitor needs KERNEL and /dev/kvm")
    return {
        "firecracker": os.path.abspath(found),
        "jailer": os.environ["JAILER_BIN"] if request.param else "",
        "kernel": os.path.abspath(kernel),
        "rootfs": str(disk),
    }


@pytest.fixture(scope="module")
def host(files: MachineSettings) -> Iterator[RunningConsole]:
    with hosting_console(**files) as console:
        yield console


@pytest.fixture
def alice(host: RunningConsole) -> Iterator[Browser]:
    with signed_in(host) as browser:
        yield browser


def test_a_machine_lives_from_its_creation_to_its_deletion(alice: Browser) -> None:
    create(alice, "life")
    assert "life Running" in alice.text
    alice.open_until("guest serves", "/machines/life/console")
    alice.open_until("Disk", "/machines/life/charts")
    alice.open("/machines/life")
    alice.click("Pause", sees="life Paused")
    alice.click("Resume", sees="life Running")
    alice.click("Stop", sees="life Ended")
    alice.click("Start", sees="life Running")
    alice.open_until("guest serves", "/machines/life/console")
    alice.click("Stop")
    alice.click("Delete", sees="The machine is deleted.")
    assert "life" not in alice.page.links


def test_a_clone_goes_on_beside_the_machine_it_was_made_of(
    alice: Browser, host: RunningConsole
) -> None:
    create(alice, "first")
    alice.open("/machines/first/snapshots")
    alice.click("Clone", {"clone.name": "second"}, sees="The clone is there.")
    assert "second Running" in alice.text
    alice.open("/machines/first", sees="first Running")
    assert pid_of(host, "first") != pid_of(host, "second")


@pytest.mark.since("1.14")
def test_a_machine_is_changed_while_it_runs_and_starts_again_as_it_was_told(alice: Browser) -> None:
    create(alice, "told", new__start="")
    do(alice, "told", "memory", "Save limit", {"memory_hotplug.total_size_mib": "256"})
    alice.click("Start")
    alice.open_until("guest serves", "/machines/told/console")
    do(alice, "told", "memory", "Resize balloon", {"balloon_size.amount_mib": "16"})
    alice.open_until("In the balloon 16 MiB", "/machines/told/charts")
    for size in ("128", "0"):
        typed = {"memory_size.requested_size_mib": size}
        do(alice, "told", "memory", "Ask for this size", typed)
        alice.open_until(f"Taken by the guest {size} MiB", "/machines/told/memory")
    alice.click("Stop")
    alice.click("Start", sees="told Running")
    assert "At most, in MiB 256" in alice.text


@pytest.mark.parametrize("button", ["Pause", "Ctrl+Alt+Del"])
def test_a_monitor_that_is_killed_while_it_is_asked_is_told_and_heals(
    alice: Browser,
    host: RunningConsole,
    monkeypatch: pytest.MonkeyPatch,
    button: str,
) -> None:
    victim = f"victim-{len(button)}"
    create(alice, victim)
    cookies = dict(alice.cookies)
    monitor = host.machine(victim).monitor
    assert monitor is not None
    asked = stopped_when_asked(monkeypatch, monitor)
    with ThreadPoolExecutor(1) as pool:
        pressed = pool.submit(alice.click, button)
        assert asked.wait(PATIENCE)
        os.kill(monitor.pid, signal.SIGKILL)
        pressed.result(PATIENCE)
    assert f"{victim} Ended" in alice.text
    alice.require(502, "No monitor responds.")
    assert "set-cookie" not in alice.headers
    alice.click("Start", sees=f"{victim} Running")
    assert "Alice Admin" in alice.text
    assert dict(alice.cookies) == cookies
    alice.open_until("guest serves", f"/machines/{victim}/console")


def test_a_monitor_that_hangs_is_stopped_from_its_page(
    alice: Browser, host: RunningConsole
) -> None:
    create(alice, "hung")
    os.kill(pid_of(host, "hung"), signal.SIGSTOP)
    alice.open("/machines/hung", sees="hung No answer")
    assert "The monitor took too long to respond." in alice.text
    alice.click("Stop")
    alice.require(200, "hung Ended")
    alice.click("Start", sees="hung Running")


def stopped_when_asked(monkeypatch: pytest.MonkeyPatch, monitor: AsyncMonitor) -> Event:
    """Set as soon as a change is sent to the monitor, which stands still and never answers."""
    asked, send, its = Event(), AsyncUnixChannel.exchange, monitor.client._sender.channel

    async def note(
        self: AsyncUnixChannel, operation: Operation[object], seconds: float | None
    ) -> HttpAnswer:
        is_change = operation.method != "GET" and b"FlushMetrics" not in (operation.body or b"")
        if is_change and self is its and not asked.is_set():
            os.kill(monitor.pid, signal.SIGSTOP)
            asked.set()
        return await send(self, operation, seconds)

    monkeypatch.setattr(AsyncUnixChannel, "exchange", note)
    return asked
