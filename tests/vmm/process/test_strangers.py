"""Processes, groups and folders that look like a monitor's, and belong to others."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from generated_vmm.process.removal import identity, start_time_of
from generated_vmm.process.state import State, boot_id
from generated_vmm.process.things import ControlGroup, Session, in_json

from generated_vmm.process import JailedMonitor, Monitor, MonitorStartError, child, folders, state
from generated_vmm.process.__main__ import look
from generated_vmm.process.jail import Jail
from generated_vmm.process.settings import own_cgroup
from tests.vmm.process.conftest import PATIENCE, Watch, nursery_of
from tests.vmm.process.test_hostile import OTHER, STAND_IN, members_of, needs_root

LEADS_AND_ENDS = """\
import os, sys, time
pid = os.fork()
if pid:
    print(pid, flush=True)
    os._exit(0)
time.sleep(1000)
"""
STARTS_ONE = """\
import json, sys
from generated_vmm.process import Monitor
print(Monitor(sys.argv[1], directory=sys.argv[2], timeout=30).start().pid, flush=True)
sys.stdin.read()
"""
UNIFIED = next(
    (
        Path(line.split()[1])
        for line in Path("/proc/self/mounts").read_text().splitlines()
        if line.split()[2] == "cgroup2"
    ),
    Path("/nowhere"),
)
needs_groups = pytest.mark.skipif(
    not os.access(UNIFIED, os.W_OK), reason="not run: no control groups of version 2 to write to"
)


@pytest.fixture
def sleeper() -> Iterator[Child]:
    """A process with a session of its own."""
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        yield Child(process.pid)
        process.kill()


@pytest.fixture
def orphan(watch: Watch) -> Iterator[tuple[int, Child]]:
    """The number of a session without a leader, and its one process."""
    program = [sys.executable, "-c", LEADS_AND_ENDS]
    with subprocess.Popen(program, stdout=subprocess.PIPE, start_new_session=True) as leader:
        assert leader.stdout is not None
        member = watch(int(leader.stdout.readline()))
    yield leader.pid, member
    member.send_signal(signal.SIGKILL)


def forking(folder: Path) -> Path:
    """A program in place of the monitor that leaves another process in its session."""
    program = folder / "firecracker"
    program.write_text(f'#!/bin/sh\nsleep 1000 &\nexec {" ".join(STAND_IN)} "$@"\n')
    program.chmod(0o755)
    return program


# Sessions


def test_a_session_without_its_leader_may_be_another(orphan: tuple[int, Child]) -> None:
    number, member = orphan
    ended = Session(number, start_time=1)
    assert not ended.has(member.pid)
    ended.remove()
    assert member.running


def test_a_session_ends_with_its_leader(orphan: tuple[int, Child]) -> None:
    number, member = orphan
    Session(number, start_time=1).end()
    assert not member.running


def test_a_session_is_ended_before_its_number_is_free_and_then_forgotten(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[list[int]] = []
    collect = Child.collect

    def counted(self: Child) -> None:
        left.append(members_of(self.pid))
        collect(self)

    with Monitor(forking(folder), directory=folder / "vm", timeout=PATIENCE) as monitor:
        assert len(members_of(monitor.pid)) == 2
        monkeypatch.setattr(Child, "collect", counted)
        os.kill(monitor.pid, signal.SIGKILL)
        monitor.wait(PATIENCE)
        assert left == [[]]
        written = json.loads((folder / "vm" / "monitor.json").read_text())
        assert "Session" not in [kind for kind, _ in written["things"]]
        owned = [thing for thing, _ in monitor._run.workspace.ward]
        assert not any(isinstance(thing, Session) for thing in owned)
        monitor.kill()


def test_a_reaper_ends_a_session_when_its_leader_ends(
    folder: Path, watch: Watch
) -> None:
    """The caller does nothing meanwhile."""
    command = [sys.executable, "-c", STARTS_ONE, str(forking(folder)), str(folder / "vm")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None
        leader = watch(int(caller.stdout.readline()))
        nursery = watch(nursery_of(caller.pid))
        (member,) = [watch(pid) for pid in members_of(leader.pid) if pid != leader.pid]
        caller.send_signal(signal.SIGSTOP)
        leader.send_signal(signal.SIGKILL)
        assert member.wait(PATIENCE)
        caller.kill()
    assert nursery.wait(PATIENCE)


def test_a_process_that_no_scan_finds_ends_with_its_group(
    sleeper: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that forks and ends all the time."""
    release = os.uname().release.split(".")
    if (int(release[0]), int(release[1].split("-")[0])) < (6, 9):
        pytest.skip("not run: Linux 6.9 or newer kills a group through a pidfd")
    monkeypatch.setattr(Session, "pids", lambda *_, **__: [])
    Session(sleeper.pid, sleeper.start_time).remove()
    assert sleeper.wait(PATIENCE)


def test_processes_of_an_earlier_boot_are_others(folder: Path, sleeper: Child) -> None:
    """The root of a jail stays on the disk, so it says nothing about the session's number."""
    (folder / "root").mkdir()
    session = Session(sleeper.pid, sleeper.start_time, identity(str(folder / "root")))
    found = State("another boot", None, {}, [in_json(session)])
    descriptor = os.open(folder, os.O_RDONLY)
    found.remove(descriptor, removes_folder=True)
    assert sleeper.running
    State(boot_id(), None, {}, [in_json(session)]).remove(descriptor, removes_folder=True)
    assert sleeper.wait(0)
    os.close(descriptor)


def test_a_jail_whose_root_is_gone_is_known_by_its_session_alone(
    folder: Path, sleeper: Child
) -> None:
    """Another folder may have the inode of the root."""
    session = Session(os.getpid(), start_time=1, root=identity("/"))
    descriptor = os.open(folder, os.O_RDONLY)
    State(boot_id(), None, {}, [in_json(session)]).remove(descriptor, removes_folder=True)
    os.close(descriptor)
    assert sleeper.running


# Control groups


def test_a_control_group_of_another_jail_is_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = folder / "cgroup" / "firecracker" / "vm-1"
    jails = [
        JailedMonitor(
            id="vm-1", uid=os.getuid(), gid=os.getgid(), chroot_base_dir=folder / f"jails{number}"
        )
        for number in range(2)
    ]
    first, second = (jail._run.workspace for jail in jails)
    assert isinstance(first, Jail)
    assert isinstance(second, Jail)
    for jail in jails:
        jail.copy_in(__file__)
    first._make_cgroup(str(group))
    with pytest.raises(MonitorStartError, match=f"control group {group} exists"):
        second._make_cgroup(str(group))
    with monkeypatch.context() as patch:  # the first one is faster
        patch.setattr(os.path, "lexists", lambda _: False)
        patch.setattr(second, "_make_parents", lambda _: None)
        with pytest.raises(MonitorStartError, match=f"control group {group} exists"):
            second._make_cgroup(str(group))
    jails[1].kill()
    assert group.is_dir()
    jails[0].kill()
    assert not group.exists()


@needs_groups
def test_a_control_group_ends_with_what_left_the_session(sleeper: Child) -> None:
    group = UNIFIED / f"generated-vmm-test-{os.getpid()}"
    group.mkdir()
    known = identity(str(group))
    ControlGroup(str(group)).take_in(sleeper.pid)
    ControlGroup(str(group), [known[0], known[1] + 1]).remove()
    assert sleeper.running
    ControlGroup(str(group), known).remove()
    assert sleeper.wait(0)
    assert not group.exists()


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        ("0::/\n", "/sys/fs/cgroup"),
        ("1:name=systemd:/\n0::/system.slice/a.service\n", "/sys/fs/cgroup/system.slice/a.service"),
        ("0::/../other\n", None),
        ("8:pids:/a\n", None),
    ],
)
def test_the_control_group_of_the_caller_is_known(groups: str, found: str | None) -> None:
    assert own_cgroup("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", groups) == found
    assert own_cgroup("tmpfs /sys/fs/cgroup tmpfs ro 0 0\n", groups) is None


# Folders


def monitor_below(path: Path) -> Monitor:
    return Monitor(STAND_IN, directory=path / "inner" / "vm", timeout=PATIENCE)


def jail_below(path: Path) -> Monitor:
    own: Any = {"uid": os.getuid(), "gid": os.getgid()}
    return JailedMonitor(binary="/bin/true", id="vm-1", chroot_base_dir=path / "inner", **own)


@pytest.mark.parametrize("make", [monitor_below, jail_below])
def test_a_folder_that_others_can_exchange_is_not_used(
    folder: Path, make: Callable[[Path], Monitor]
) -> None:
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    (folder / "link").symlink_to(folder / "open")
    for path in (folder / "open", folder / "link"):
        with pytest.raises(MonitorStartError, match=rf"^{folder}/open leads to .* chmod go-w"):
            make(path).start()
    assert list((folder / "open").iterdir()) == []


@needs_root
def test_a_folder_below_that_of_another_user_is_not_used(folder: Path) -> None:
    (folder / "home").mkdir()
    os.chown(folder / "home", OTHER, OTHER)
    (folder / "link").symlink_to(folder)
    os.chown(folder / "link", OTHER, OTHER, follow_symlinks=False)
    for name in ("home", "link"):
        with pytest.raises(MonitorStartError, match=rf"^{folder}/{name} belongs to user {OTHER}"):
            monitor_below(folder / name).start()


def test_links_that_lead_nowhere_have_an_end(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    with pytest.raises(MonitorStartError):
        monitor_below(folder / "loop").start()


def test_a_folder_that_others_can_read_is_not_used(folder: Path) -> None:
    """Whoever can open a folder can lock it."""
    (folder / "vm").mkdir()
    (folder / "vm").chmod(0o755)
    with pytest.raises(MonitorStartError, match=r"can be locked by others .* chmod go-r"):
        Monitor(STAND_IN, directory=folder / "vm").start()


def test_the_wait_for_a_folder_ends_when_the_monitor_is_not_wanted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, errors = threading.Event(), list[str]()
    other = os.open(folder, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_SH)
    monkeypatch.setattr(folders, "lock", lambda _: waits.set())
    monitor = Monitor(STAND_IN, directory=folder, timeout=PATIENCE)

    def start() -> None:
        try:
            monitor.start()
        except MonitorStartError as error:
            errors.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
    assert waits.wait(PATIENCE)
    monitor.kill()
    thread.join()
    os.close(other)
    assert len(errors) == 1
    assert "stopped" in errors[0]


@pytest.mark.parametrize("mode", [0o1711, 0o700])
def test_a_folder_of_the_user_stays(folder: Path, mode: int) -> None:
    (folder / "vm").mkdir()
    (folder / "vm").chmod(mode)
    with Monitor(STAND_IN, directory=folder / "vm", timeout=PATIENCE):
        pass
    assert (folder / "vm").stat().st_mode & 0o7777 == mode
    assert look(str(folder / "vm"), clean=True) is None
    assert (folder / "vm").exists()


def test_a_folder_that_was_just_created_is_a_leftover(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller and the reaper die before the state is written: here, neither removes it."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = folder / "vm"
    monitor = Monitor(STAND_IN, directory=path, timeout=PATIENCE)
    with monkeypatch.context() as patch:
        patch.setattr(state, "write_state", full)
        patch.setattr("generated_vmm.process.workspace.write_state", full)
        patch.setattr("generated_vmm.process.run.remove_all", lambda _: None)
        with pytest.raises(MonitorStartError, match="No space left"):
            monitor.start()
    found = look(str(path))
    assert found is not None
    assert found.status == "leftover"
    (path / "file").touch()
    assert look(str(path)) is None
    (path / "file").unlink()
    look(str(path), clean=True)
    assert not path.exists()


# Descriptors


def test_a_process_that_cannot_be_watched_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []
    spawn = child.spawn

    def noted(*given: Any) -> int:
        pids.append(spawn(*given))
        return pids[-1]

    def full(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(child, "spawn", noted)
    monkeypatch.setattr(os, "pidfd_open", full)
    reading, writing = os.pipe()
    with pytest.raises(OSError, match="Too many open files"):
        child.Gate(["/bin/true"], {}, "/", [reading, writing, writing])
    os.close(reading)
    os.close(writing)
    assert len(pids) == 1
    with contextlib.suppress(ProcessLookupError):
        assert start_time_of(pids[0]) is None
