"""Machines whose guests have the agent: copies get an identity before anything runs in them."""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from generated_vmm import Operation, Vsock
from generated_vmm.guest import Guest, GuestError
from generated_vmm.machines import Definition, Machine, MachineError, Machines
from generated_vmm.machines._sync import held, operation
from generated_vmm.machines._sync.held import Held
from generated_vmm.process import Monitor
from tests.vmm.machines.parts import at_calls, definition, machines_in
from tests.vmm.machines.test_reconcile import told

WITH_AGENT = [sys.executable, "-m", "tests.vmm.machines.with_agent"]
ORIGIN = "of the snapshot"


@pytest.fixture
def machines(folder: Path) -> Iterator[Machines]:
    with machines_in(folder, binary=WITH_AGENT, detached=False) as made:
        yield made


@pytest.fixture
def web(folder: Path, machines: Machines) -> Machine:
    """A machine that runs, with a user's program that writes which machine it is in."""
    made = machines.create("web", with_agent(folder))
    made.start()
    with made.guest() as guest:
        guest.wait_until_ready()
    return made


def with_agent(folder: Path) -> Definition:
    made = definition(folder)
    vsock = Vsock(guest_cid=3, uds_path="vsock.socket")
    configuration = made.configuration.model_copy(update={"vsock": vsock})
    return Definition(configuration=configuration, agent=1024)


def own(folder: Path, machine: Machine, name: str) -> Path:
    return folder / "machines" / "machines" / machine.id / name


def seen(folder: Path, machine: Machine) -> set[str]:
    """The machines in which the user's program was; it waits for the next thing that is written."""
    path = own(folder, machine, "seen")
    with machine.guest() as guest:
        wait = f"tail -n +{len(path.read_text().splitlines()) + 2} -f {path} | head -n 1"
        guest.run(["sh", "-c", wait], timeout=60)
    return set(path.read_text().splitlines())


def test_copies_are_distinct_and_nothing_runs_in_them_before(
    folder: Path, machines: Machines, web: Machine
) -> None:
    snapshot = web.snapshot("first")
    copies = [web.clone("copy"), snapshot.restore("back"), snapshot.restore("again", run=False)]
    assert [one.state() for one in copies] == ["Running", "Running", "Paused"]
    copies[2].resume()
    for name in ("seed", "machine_id", "hostname"):
        assert len({own(folder, one, name).read_text() for one in copies}) == 3
    for copy in copies:
        assert own(folder, copy, "hostname").read_text() == f"{copy.name}\n"
        assert seen(folder, copy) == {own(folder, copy, "machine_id").read_text().strip()}
        renewals = own(folder, copy, "renewed").read_text().splitlines()
        assert renewals[:5] == [
            f"{name} 0" for name in ("seed", "unix_ns", "machine_id", "hostname", "host_keys")
        ]
    assert seen(folder, web) == {ORIGIN}


def test_a_guest_stands_still_from_before_the_pause_until_its_copy_is_made(
    folder: Path, machines: Machines, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def measure(call: Operation[object]) -> None:
        if call.path in ("/vm", "/snapshot/create") and not machines.find("copy"):
            sizes.append(own(folder, web, "seen").stat().st_size)

    at_calls(monkeypatch, measure)
    web.clone("copy")
    assert len(set(sizes[:3])) == 1  # pause, snapshot, resume: simulated programs know no pause
    assert seen(folder, web) == {ORIGIN}


def test_a_copy_whose_identity_cannot_be_renewed_is_not_offered(
    folder: Path, machines: Machines, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_agents(call: Operation[object]) -> None:
        if call.path == "/snapshot/load":
            for path in (folder / "machines" / "machines").iterdir():
                (path / "broken").touch()

    at_calls(monkeypatch, break_agents)
    with pytest.raises(OSError, match="Input/output error"):
        web.clone("copy")
    snapshot = web.snapshot("first")
    with pytest.raises(OSError, match="Input/output error"):
        snapshot.restore("copy")
    assert [one.name for one in machines.all()] == ["web"]
    assert (machines.operations(), web.state()) == ([], "Running")
    assert len(list((folder / "machines" / "machines").iterdir())) == 1
    assert seen(folder, web) == {ORIGIN}


def test_after_a_failed_snapshot_the_guest_runs_again(
    folder: Path, machines: Machines, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_calls(monkeypatch, Mock(side_effect=OSError("no")), "/snapshot/create")
    with pytest.raises(OSError, match="no"):
        web.snapshot("first")
    assert (web.state(), machines.snapshots()) == ("Running", [])
    assert seen(folder, web) == {ORIGIN}


def test_a_guest_that_is_held_and_not_yet_paused_runs_again_after_a_failure(
    folder: Path, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Held._step

    def full(held: Held, what: str, **members: Any) -> None:
        if what == "pauses the machine":
            raise OSError(errno.ENOSPC, "No space left on device")
        step(held, what, **members)

    monkeypatch.setattr(Held, "_step", full)
    for act in (web.snapshot, lambda: web.clone("copy")):
        with pytest.raises(OSError, match="No space"):
            act()
        assert seen(folder, web) == {ORIGIN}


def after_the_resume(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Raises once, after the monitor has resumed the guest and before its agent is told."""

    def interrupted(_: object) -> None:
        monkeypatch.setattr(operation, "_go_on", go_on)
        raise error

    go_on = operation._go_on
    monkeypatch.setattr(operation, "_go_on", interrupted)


@pytest.mark.parametrize("act", [Machine.snapshot, lambda web: web.clone("copy")])
def test_a_guest_that_was_resumed_and_not_yet_released_runs_after_an_interruption(
    folder: Path, web: Machine, monkeypatch: pytest.MonkeyPatch, act: Callable[[Machine], object]
) -> None:
    after_the_resume(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        act(web)
    assert web.state() == "Running"
    assert seen(folder, web) == {ORIGIN}


class Killed(BaseException):
    """The end of a program, after which nothing is undone."""


def test_the_clock_is_set_if_the_program_is_killed_after_the_resume(
    folder: Path, machines: Machines, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.pause()
    after_the_resume(monkeypatch, Killed())
    monkeypatch.setattr(operation, "_undo", lambda *_: None)
    with pytest.raises(Killed):
        web.resume()
    assert not own(folder, web, "unix_ns").exists()
    assert told(machines) == [("finished", "web")]
    assert own(folder, web, "unix_ns").exists()


class Impatient(Guest):
    """A guest whose agent is given up soon."""

    def __init__(self, machine: Monitor, *, port: int, timeout: float) -> None:
        super().__init__(machine, port=port, timeout=0.2)


def test_without_its_agent_a_machine_is_resumed_and_that_is_told(
    folder: Path, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(folder, web, "agent.socket").rename(folder / "agent.socket")
    monkeypatch.setattr(held, "Guest", Impatient)
    web.pause()
    web.resume()
    assert web.state() == "Running"
    assert web.record.agent_error
    monkeypatch.undo()
    (folder / "agent.socket").rename(own(folder, web, "agent.socket"))
    web.pause()
    assert not own(folder, web, "unix_ns").exists()
    web.resume()
    assert web.record.agent_error == ""
    assert own(folder, web, "unix_ns").exists()


def test_without_its_agent_a_machine_is_copied_only_if_its_definition_has_none(
    folder: Path, machines: Machines, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.pause()
    for copy in (web.snapshot, lambda: web.clone("copy")):
        with pytest.raises(MachineError, match="web is paused; it must be running"):
            copy()
    web.resume()
    own(folder, web, "agent.socket").unlink()
    monkeypatch.setattr(held, "Guest", Impatient)
    for copy in (web.snapshot, lambda: web.clone("copy")):
        with pytest.raises(GuestError):
            copy()
    assert ([one.name for one in machines.all()], web.state()) == (["web"], "Running")
    assert machines.snapshots() == []
    web.edit(web.definition.replace(agent=None))
    copies = [web.clone("copy"), web.snapshot().restore("back")]
    assert [one.state() for one in copies] == ["Running", "Running"]
    assert not any("seed" in os.listdir(own(folder, one, "")) for one in copies)


def test_a_machine_without_an_agent_has_no_guest(folder: Path, machines: Machines) -> None:
    machine = machines.create("plain", definition(folder))
    with pytest.raises(MachineError, match="does not run"):
        machine.guest()
    machine.start()
    with pytest.raises(MachineError, match="plain has no agent"):
        machine.guest()


def test_a_guest_is_led_to_a_socket_beside_that_of_its_device(
    machines: Machines, web: Machine
) -> None:
    copy = web.clone("copy")
    for machine in (web, copy):
        path = machine.vsock_path(8080)
        assert path.name == "vsock.socket_8080"
        assert path.with_name("vsock.socket").is_socket()
    assert web.vsock_path(8080) != copy.vsock_path(8080)
    web.stop()
    with pytest.raises(MachineError, match="web does not run"):
        web.vsock_path(8080)


def test_programs_run_in_the_guest_of_a_machine(web: Machine) -> None:
    with web.guest() as guest:
        assert isinstance(guest, Guest)
        assert guest.run(["echo", "hello"]).text == "hello\n"
