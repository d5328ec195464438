"""What happens between two steps: another caller, another process, an end, a failure."""

import contextlib
import errno
import gc
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from generated_vmm import (
    NetworkInterface,
    VmmApiError,
    VmmTimeoutError,
)
from generated_vmm.machines import (
    Definition,
    Jail,
    Machine,
    MachineBusy,
    MachineError,
    MachineRecord,
    Machines,
    Operation,
    TapDevice,
    records,
)
from generated_vmm.machines._sync import held as held_module
from generated_vmm.machines._sync import operation as operation_module
from generated_vmm.machines._sync.held import Held
from generated_vmm.machines.store import Records, make_folder, remove
from generated_vmm.process import (
    JailedMonitor,
    Monitor,
    MonitorError,
    MonitorExited,
    MonitorStartError,
)
from tests.vmm.forking import forked
from tests.vmm.machines.parts import at_calls, definition, machines_in, monitors_of
from tests.vmm.machines.test_machines import own_disk, with_devices
from tests.vmm.machines.test_reconcile import killed, running, told


def before(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, act: Callable[..., object]
) -> None:
    """Does something once, before the first call of a function to which `act` does not object."""
    original = getattr(owner, name)
    is_done: list[bool] = []

    def called(*given: Any, **named: Any) -> Any:
        if not is_done:
            is_done.append(True)
            if act(*given, **named) is False:
                is_done.clear()
        return original(*given, **named)

    monkeypatch.setattr(owner, name, called)


def stored(folder: Path, machine: Machine) -> Path:
    return folder / "machines" / "machines" / machine.id


def edited(machine: Machine, **members: object) -> None:
    machine.edit(machine.definition.replace(**members))


def disk_full(*given: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


# The end of a program


def test_a_folder_in_which_a_nursery_still_moves_files_is_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "jail" / "root").mkdir(parents=True)
    moved = iter([folder / "jail" / "moved-up"])
    rmdir = os.rmdir

    def rmdir_late(path: Any, **named: Any) -> None:
        for each in moved:
            each.touch()
        rmdir(path, **named)

    monkeypatch.setattr(os, "rmdir", rmdir_late)
    remove(folder / "jail")
    assert not (folder / "jail").exists()


def test_an_operation_that_runs_at_close_ends_and_then_gives_its_machine_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machines_in(folder)
    first.take_control()
    web = first.create("web", definition(folder))
    web.start()

    def close(_: object) -> None:
        first.close()
        with pytest.raises(MachineError, match="controls the machines"):
            machines_in(folder).take_control()

    at_calls(monkeypatch, close, "/snapshot/create")
    web.snapshot("first")
    with machines_in(folder, detached=False) as second:
        assert (told(second), second.all()[0].state()) == ([], "Running")
        assert [one.name for one in second.snapshots()] == ["first"]
    with pytest.raises(MachineError, match="does not control"):
        web.start()
    with first:  # as the lifespan of an application that starts again
        assert told(first) == [("lost", "web")]
        web.start()
        web.stop()


def test_a_clone_that_has_begun_at_close_is_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machines_in(folder)
    first.take_control()
    web = first.create("web", definition(folder))
    web.start()
    at_calls(monkeypatch, lambda _: first.close(), "/")
    web.clone("copy")
    with machines_in(folder, detached=False) as second:
        assert told(second) == []
        assert [one.state() for one in second.all()] == ["Running", "Running"]


@pytest.mark.parametrize("failure", [MonitorError, MachineError])
def test_a_machine_that_cannot_be_given_up_does_not_keep_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    first, let_go = machines_in(folder, detached=False), Held._let_go
    first.take_control()
    for name in ("a", "b"):
        first.create(name, definition(folder)).start()

    def refused(held: Held) -> None:
        let_go(held)
        raise failure(f"some of {held.id} could not be removed")

    monkeypatch.setattr(Held, "_let_go", refused)
    with pytest.raises(failure, match="could not be removed"):
        first.close()
    assert monitors_of(folder) == []
    machines_in(folder).take_control()


def test_a_reconcile_that_runs_at_close_touches_nothing_any_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines_in(folder) as machines:
        for name in ("a", "b"):
            machines.create(name, definition(folder)).start()
    first = machines_in(folder)
    first.take_control()
    before(monkeypatch, Held, "_find", lambda *_: first.close())
    assert told(first) == []
    monkeypatch.undo()
    with machines_in(folder, detached=False) as second:
        assert told(second) == []
        assert [one.state() for one in second.all()] == ["Running", "Running"]


def test_a_forked_process_has_no_control(folder: Path, machines: Machines, web: Machine) -> None:
    def refusal(of: Callable[[], object]) -> str:
        with pytest.raises(MachineError) as refused:
            of()
        return str(refused.value)

    web.start()
    assert "does not control" in str(forked(partial(refusal, web.stop)).result())
    assert "another process" in str(forked(partial(refusal, machines.take_control)).result())
    with pytest.raises(MachineError, match="controls the machines"):
        machines_in(folder).take_control()


# Operations that fail or are cut off


def test_an_interruption_after_the_record_leaves_no_operation(
    folder: Path, machines: Machines, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Records.put

    def interrupted(store: Records[Any], id: str, record: Any) -> None:
        put(store, id, record)
        raise KeyboardInterrupt

    for act in (web.start, lambda: machines.create("other", definition(folder))):
        with monkeypatch.context() as patch:
            patch.setattr(Records, "put", interrupted)
            with pytest.raises(KeyboardInterrupt):
                act()
        assert machines.operations() == []
    assert [one.name for one in machines.all()] == ["web"]
    assert told(machines) == []


def test_a_second_call_tells_the_guest_of_a_disk_whose_growth_was_interrupted(
    folder: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = machines.create("web", definition(folder))
    web.start()

    at_calls(monkeypatch, Mock(side_effect=KeyboardInterrupt), "/drives/rootfs")
    with pytest.raises(KeyboardInterrupt):
        web.grow("rootfs", 1 << 20)
    assert own_disk(folder, web).stat().st_size == 1 << 20
    told: list[str] = []
    at_calls(monkeypatch, lambda call: told.append(f"{call.method} {call.path}"))
    web.grow("rootfs", 1 << 20)
    assert "PATCH /drives/rootfs" in told


@pytest.mark.parametrize("name", ["change", "reconcile"])
def test_an_interruption_at_any_moment_leaves_no_machine_busy(
    folder: Path, machines: Machines, name: str
) -> None:
    """Python interrupts a program where a function begins or has returned."""
    web = machines.create("web", definition(folder))
    act = partial(edited, web, order=1) if name == "change" else machines.reconcile
    files = {module.__file__ for module in (held_module, operation_module, contextlib)}
    interrupted: set[tuple[str, str, str, int]] = set()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        moment = event, code.co_filename, code.co_name, frame.f_lineno
        is_yield = event == "return" and code.co_flags & inspect.CO_GENERATOR
        if code.co_filename not in files or event == "line" or is_yield:
            return trace if code.co_filename in files else None
        if moment not in interrupted:
            interrupted.add(moment)
            raise KeyboardInterrupt
        return trace

    while True:
        seen = len(interrupted)
        sys.settrace(trace)
        try:
            act()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        gc.collect()
        assert machines._busy == {}, (interrupted, seen)
        if len(interrupted) == seen:
            break
    assert len(interrupted) > 20


def test_what_was_done_and_not_tidied_up_is_told_as_finished(
    machines: Machines, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.start()

    put = Records.put

    def full(store: Records[Any], id: str, record: Any) -> None:
        if isinstance(record, MachineRecord) and record.operation is None:
            disk_full()
        put(store, id, record)

    acts: list[Callable[[], object]] = [
        partial(web.grow, "rootfs", 1 << 20),
        partial(edited, web, order=1),
        web.pause,
        partial(web.snapshot, "first"),
        web.resume,
    ]
    for act in acts:
        with monkeypatch.context() as patch:
            patch.setattr(Records, "put", full)
            act()
        assert told(machines) == [("finished", "web")]
    with monkeypatch.context() as patch:
        patch.setattr(Records, "put", full)
        assert web.clone("copy").name == "copy"
    assert told(machines) == [("finished", "copy"), ("finished", "web")]
    assert ([one.name for one in machines.snapshots()], web.state()) == (["first"], "Running")


def test_a_full_disk_does_not_keep_a_machine_from_its_deletion(
    folder: Path, machines: Machines, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Records.put

    def full(store: Records[Any], id: str, record: Any) -> None:
        if record.operation is None or record.operation.step == "begins":
            put(store, id, record)
        else:
            disk_full()

    monkeypatch.setattr(Records, "put", full)
    web.delete()
    assert (machines.all(), list(stored(folder, web).parent.iterdir())) == ([], [])


def hung(web: Machine) -> None:
    """A monitor that does not respond, with an operation that was left half done."""
    web._control.timeout = 4.0
    operation = Operation(kind="pause", machine=web.id, name=web.name, step="pauses the machine")
    web._change(operation=operation)
    assert web.monitor is not None
    os.kill(web.monitor.pid, signal.SIGSTOP)


def test_a_monitor_that_does_not_respond_does_not_keep_reconcile_from_the_others(
    folder: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "FIRST_PAUSE_SECONDS", 0.0)
    web = machines.create("a", definition(folder))
    other = machines.create("other", definition(folder).replace(restart="always"))
    assert told(machines) == []
    for machine in (web, other):
        machine.start()
    killed(other)
    hung(web)
    assert told(machines) == [("failed", "a"), ("ended", "other"), ("started", "other")]
    assert web.monitor is not None
    os.kill(web.monitor.pid, signal.SIGCONT)
    assert told(machines) == [("undone", "a")]
    assert web.state() == "Running"


@pytest.mark.parametrize("act", [Machine.stop, Machine.delete])
def test_a_monitor_that_does_not_respond_can_be_ended_whatever_was_left_half_done(
    machines: Machines,
    web: Machine,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Machine], object],
) -> None:
    web.start()
    hung(web)
    with pytest.raises(VmmTimeoutError):
        web.pause()
    put, unrecorded = Records.put, list[bool]()

    def noted(store: Records[Any], id: str, record: Any) -> None:
        unrecorded.append(record.operation is None and web.is_up)
        put(store, id, record)

    monkeypatch.setattr(Records, "put", noted)
    act(web)
    assert unrecorded
    assert not any(unrecorded)  # a kill would leave a monitor that nobody ends
    assert [one.state() for one in machines.all()] == (["Ended"] if act is Machine.stop else [])
    assert machines.operations() == []


def test_a_stop_removes_the_memory_of_a_snapshot_that_was_left_half_done(
    folder: Path, machines: Machines, web: Machine
) -> None:
    web.start()
    target = records.new_id()
    left = Operation(kind="snapshot", machine=web.id, name="web", target=target)
    web._change(operation=left)
    make_folder(folder / "machines" / "snapshots" / target)
    for name in ("state", "memory"):
        (stored(folder, web) / f"{name}-{left.id}").touch()
    web.stop()
    assert sorted(os.listdir(stored(folder, web))) == ["disks", "machine.json"]
    assert os.listdir(folder / "machines" / "snapshots") == []


def test_a_keeper_that_was_killed_before_its_record_does_not_keep_a_machine(
    folder: Path, machines: Machines, web: Machine
) -> None:
    (folder / "machines" / "run" / web.id).mkdir(mode=0o700)
    web.delete()
    assert (machines.all(), machines.operations()) == ([], [])
    assert list((folder / "machines" / "run").iterdir()) == []


class Taps(MagicMock):
    """Tap devices that are only counted."""

    def open(self) -> int:
        tap = self.return_value
        return int(tap.__enter__.call_count - tap.__exit__.call_count)


@pytest.fixture
def taps(monkeypatch: pytest.MonkeyPatch) -> Taps:
    made = Taps()
    made.return_value.__exit__.return_value = None
    monkeypatch.setitem(sys.modules, "generated_vmm.process.network", SimpleNamespace(Tap=made))
    return made


def tapped(folder: Path) -> Definition:
    made = definition(folder).replace(taps=(TapDevice(name="tap0"),))
    used = [NetworkInterface(iface_id="eth0", host_dev_name="tap0")]
    return with_devices(made, network_interfaces=used)


def test_a_start_that_fails_leaves_no_tap_device(folder: Path, taps: Taps) -> None:
    with machines_in(folder, binary=["/bin/false"]) as machines:
        web = machines.create("web", tapped(folder))
        with pytest.raises(MonitorStartError):
            web.start()
        assert taps.open() == 0


def test_a_tap_device_exists_while_its_machine_runs(
    folder: Path, machines: Machines, taps: Taps
) -> None:
    web = machines.create("web", tapped(folder))
    web.start()
    assert taps.open() == 1
    killed(web)
    assert told(machines) == [("ended", "web")]
    assert taps.open() == 0
    web.start()
    assert taps.open() == 1
    machines.close()
    assert taps.open() == 0


# Two callers


def due(machines: Machines, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that has ended and is started by the next `reconcile`."""
    monkeypatch.setattr(records, "FIRST_PAUSE_SECONDS", 0.0)
    web = machines.create("web", definition(folder).replace(restart="always"))
    assert told(machines) == []
    web.start()
    killed(web)
    web._look()
    return web


def test_an_operation_waits_for_a_look_of_reconcile_but_not_for_ever(
    machines: Machines, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.start()
    waits, has_looked, thread = threading.Event(), threading.Event(), threading.Thread()

    def sleep(_: float) -> None:
        waits.set()
        has_looked.wait(60)

    def meanwhile(_: Held) -> None:
        nonlocal thread
        thread = threading.Thread(target=web.pause)
        thread.start()
        waits.wait(60)

    with monkeypatch.context() as patch:
        patch.setattr(held_module, "sleep", sleep)
        before(patch, Held, "_look", meanwhile)
        assert told(machines) == []
        has_looked.set()
        thread.join()
    assert web.state() == "Paused"
    monkeypatch.setattr(held_module, "LOOK_SECONDS", 0.0)
    with (
        machines._turn(web.id),
        pytest.raises(MachineBusy, match="web is busy: reconcile looks at it"),
    ):
        web.resume()


def test_an_edit_keeps_a_restart_that_is_due(
    folder: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = due(machines, folder, monkeypatch)
    web.edit(web.definition.replace(order=1))
    assert told(machines) == [("ended", "web"), ("started", "web")]


def test_two_callers_delete_a_snapshot(
    folder: Path, machines: Machines, web: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.start()
    snapshot = web.snapshot()
    store = machines._store.snapshots

    def other(path: Path, **_: object) -> bool:
        is_inside = Path(path).name in ("state", "memory")
        if is_inside:
            monkeypatch.undo()
            store.remove(snapshot.id)
        return is_inside

    before(monkeypatch, Path, "unlink", other)
    snapshot.delete()
    assert machines.snapshots() == []

    def whole(path: Path) -> bool:
        is_its = path == store.path(second.id)
        if is_its:
            store.remove(second.id)
        return is_its

    second = web.snapshot()
    before(monkeypatch, Path, "iterdir", whole)
    second.delete()
    assert os.listdir(folder / "machines" / "snapshots") == []


# Other hands, other clocks, other programs


def test_one_record_that_cannot_be_read_stops_only_its_own_machine(
    folder: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = due(machines, folder, monkeypatch)
    broken = machines.create("broken", definition(folder))
    (stored(folder, broken) / "machine.json").write_text("{")
    assert [one.name for one in machines.all()] == ["web"]
    found = {(one.what, one.machine): one.why for one in machines.reconcile()}
    expected = {("failed", broken.id), ("ended", other.id), ("started", other.id)}
    assert found.keys() == expected, found
    (folder / "machines" / "snapshots" / broken.id).mkdir()
    (folder / "machines" / "snapshots" / broken.id / "snapshot.json").write_text("{")
    assert (machines.operations(), machines.snapshots()) == ([], [])
    machines.close()
    with machines_in(folder, detached=False) as second:
        assert [(one.what, one.machine) for one in second.reconcile()][:1] == [
            ("failed", broken.id)
        ]
    assert (folder / "machines" / "snapshots" / broken.id).exists()


def test_a_machine_whose_record_is_gone_leaves_no_monitor(folder: Path, machines: Machines) -> None:
    web = machines.create("web", definition(folder))
    web.start()
    (stored(folder, web) / "machine.json").unlink()
    assert told(machines) == []
    assert (monitors_of(folder), machines.all()) == ([], [])
    assert not stored(folder, web).exists()


def test_files_that_are_not_there_are_not_the_same(folder: Path, machines: Machines) -> None:
    made = definition(folder)
    for drive in made.configuration.drives or []:
        drive.path_on_host, drive.is_read_only = str(folder / "missing"), True
    web = machines.create("web", made)
    assert machines.users_of(folder / "nothing") == []
    with pytest.raises(VmmApiError, match="missing"):
        web.start()


def test_a_clock_that_was_set_back_does_not_delay_a_restart() -> None:
    record = running("always").model_copy(update={"started_at": None})
    for seconds, expected in ((-1, True), (100, False), (86400, True)):
        retry_at = records.now() + timedelta(seconds=seconds)
        assert record.model_copy(update={"retry_at": retry_at}).is_due is expected


def test_machines_of_two_folders_have_different_users(folder: Path) -> None:
    jailed = definition(folder).replace(jail=Jail())
    users = set[int]()
    for name in ("a", "b"):
        with machines_in(folder / name) as machines:
            users.add(machines.create("web", jailed).record.uid)
    assert len(users) == 2


def test_a_jail_is_found_after_its_program_was_replaced_by_one_of_another_name(
    folder: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = machines.create("web", definition(folder).replace(jail=Jail()))
    web._change(started_at=records.now(), should_be="Running")
    jail = folder / "machines" / "jails" / "firecracker-1.15" / web.id
    jail.mkdir(parents=True)
    (jail / "monitor.json").write_text("{}")

    def attach(found: Path) -> JailedMonitor:
        assert found == jail
        raise MonitorExited("it has ended", returncode=3)

    monkeypatch.setattr(JailedMonitor, "attach", attach)
    (report,) = machines.reconcile()
    assert report.end is not None
    assert (report.what, report.end.returncode) == ("ended", 3)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_jail_that_runs_is_found_beside_one_that_has_ended(
    folder: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    """A machine has two if it ended by itself and runs now in a program of another name."""
    web = machines.create("web", definition(folder).replace(jail=Jail()))
    web._change(started_at=records.now(), should_be="Running")
    jails = [folder / "machines" / "jails" / name / web.id for name in ("old", "new")]
    for at, jail in enumerate(jails):
        jail.mkdir(parents=True)
        os.utime(jail, (at, at))
    listed = ["new", "old"] if is_first else ["old", "new"]
    listdir = os.listdir
    monkeypatch.setattr(
        os, "listdir", lambda path: listed if Path(path).name == "jails" else listdir(path)
    )
    found = Mock(running=True)

    def attach(jail: Path) -> Any:
        if jail == jails[0]:
            raise MonitorExited("it has ended", returncode=3)
        return found

    monkeypatch.setattr(JailedMonitor, "attach", attach)
    assert told(machines) == []
    assert web.monitor is found
    machines._monitors.clear()
    monkeypatch.setattr(JailedMonitor, "attach", ended_with_its_time)
    (report,) = machines.reconcile()
    assert report.end is not None
    assert report.end.returncode == 1  # the last one


def ended_with_its_time(jail: Path) -> Any:
    raise MonitorExited("it has ended", returncode=int(jail.stat().st_mtime))


def test_a_monitor_is_not_taken_for_lost_because_its_folder_cannot_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines_in(folder) as machines:
        machines.create("web", definition(folder)).start()
    with machines_in(folder, detached=False) as machines:
        listdir = os.listdir

        def limited(path: Path) -> list[str]:
            if Path(path).name == "jails":
                raise OSError(errno.EMFILE, "Too many open files")
            return listdir(path)

        with monkeypatch.context() as patch:
            patch.setattr(os, "listdir", limited)
            assert told(machines) == [("failed", "web")]
        assert told(machines) == []
        assert machines.all()[0].state() == "Running"


def test_a_monitor_whose_folder_goes_before_it_is_attached_has_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines_in(folder) as machines:
        machines.create("web", definition(folder)).start()
    attach = Monitor.attach
    before(monkeypatch, Monitor, "attach", lambda path: attach(path).stop())
    with machines_in(folder) as machines:
        assert told(machines) == [("lost", "web")]


def test_names_of_new_files_are_on_the_disk_before_the_record(
    folder: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    web = machines.create("web", definition(folder))
    own = stored(folder, web)
    assert own_disk(folder, web).parent == own / "disks"
    *earlier, _ = (place for place, path in enumerate(synced) if path == str(own))
    last = max(earlier)
    for path in (own.parent, own / "disks"):
        assert str(path) in synced[:last]
