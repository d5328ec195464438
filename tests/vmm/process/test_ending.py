"""Each way in which a monitor can end."""

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from generated_vmm import VmmClient, VmmConnectionError, VmmTimeoutError
from generated_vmm.process import AsyncMonitor, Monitor, MonitorError, MonitorExited
from generated_vmm.process._sync.waiting import comes_true
from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.kernel import Descriptor
from generated_vmm.process.nursery import NURSERY
from generated_vmm.process.owner import Owner, Phase
from tests.vmm.described import has_field
from tests.vmm.process.conftest import (
    PATIENCE,
    Do,
    Make,
    Watch,
    both_halves,
    children_of,
    keeper_of,
    wait_until,
    wait_until_empty,
)

# mypy: disable-error-code="func-returns-value"


@both_halves
def test_a_guest_that_runs_is_asked_to_end(start: Make, do: Do, guest: dict[str, Any]) -> None:
    monitor = start()
    do(monitor.client.boot(**guest))
    do(monitor.serial.read_until(b"guest is up", timeout=PATIENCE))
    assert do(monitor.stop(grace=PATIENCE)) == 0
    assert b"guest resets" in monitor.serial.read().data


def test_a_guest_that_cannot_hear_is_not_waited_for(
    start: Make, do: Do, guest: dict[str, Any]
) -> None:
    monitor = start(grace=1000.0)
    do(monitor.client.boot(**guest))
    do(monitor.client.pause())
    assert do(monitor.stop()) == -signal.SIGKILL


def test_without_grace_a_guest_is_not_asked(start: Make, do: Do, guest: dict[str, Any]) -> None:
    monitor = start(grace=0)
    do(monitor.client.boot(**guest))
    assert do(monitor.stop()) == -signal.SIGKILL


def test_a_monitor_that_hangs_is_killed(start: Make, do: Do) -> None:
    monitor = start()
    os.kill(monitor.pid, signal.SIGSTOP)
    assert do(monitor.stop()) == -signal.SIGKILL


@both_halves
def test_ending_twice_is_harmless(start: Make, do: Do) -> None:
    monitor = start()
    folder = monitor.directory
    assert do(monitor.stop()) == -signal.SIGKILL
    assert do(monitor.stop()) == do(monitor.kill()) == monitor.returncode == -signal.SIGKILL
    assert not monitor.running
    assert not folder.exists()


@both_halves
def test_a_monitor_that_does_not_end_is_told_and_kept(
    start: Make, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waits in the kernel for a disk that is gone: here, its keeper is stopped."""
    monitor = start()
    keeper = keeper_of(monitor.pid)
    os.kill(keeper, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        for half in ("_sync", "_async"):
            patch.setattr(f"generated_vmm.process.{half}.monitor.LONGEST_ENDING", 0.01)
        with pytest.raises(MonitorError, match="was killed and does not end"):
            do(monitor.kill())
    assert monitor.socket_path.exists()
    os.kill(keeper, signal.SIGCONT)
    assert do(monitor.kill()) == -signal.SIGKILL


def test_only_files_that_the_monitor_made_are_removed(start: Make, do: Do, folder: Path) -> None:
    (folder / "disk.ext4").write_text("mine")
    monitor = start(directory=folder, log_path=folder / "own.log")
    do(monitor.stop())
    assert {path.name for path in folder.iterdir()} == {"disk.ext4", "own.log"}


def test_a_folder_that_was_made_goes(start: Make, do: Do, folder: Path) -> None:
    monitor = start(directory=folder / "made")
    assert (folder / "made").stat().st_mode & 0o777 == 0o700
    do(monitor.stop())
    assert not (folder / "made").exists()


def test_the_socket_that_another_client_made_goes_with_a_monitor_that_is_stopped(
    start: Make, do: Do, folder: Path
) -> None:
    """The monitor is asked before its end."""
    monitor = start()
    with VmmClient(monitor.socket_path) as client:
        client.vsock.set(guest_cid=3, uds_path=str(folder / "v.sock"))
    do(monitor.stop())
    assert not (folder / "v.sock").exists()


def test_the_socket_of_a_vsock_device_goes_with_a_monitor_that_hangs(
    start: Make, do: Do, folder: Path
) -> None:
    """It was noted before. A device in place of another has another socket."""
    monitor = start()
    for name in ("first.sock", "v.sock"):
        do(monitor.client.vsock.set(guest_cid=3, uds_path=str(folder / name)))
    os.kill(monitor.pid, signal.SIGSTOP)
    do(monitor.kill())
    assert not list(folder.iterdir())


def test_the_socket_of_a_vsock_device_goes_with_a_monitor_that_was_killed(
    start: Make, do: Do, folder: Path
) -> None:
    monitor = start()
    do(monitor.client.vsock.set(guest_cid=3, uds_path=str(folder / "v.sock")))
    os.kill(monitor.pid, signal.SIGKILL)
    do(monitor.wait(PATIENCE))
    assert do(monitor.stop()) == -signal.SIGKILL
    assert not (folder / "v.sock").exists()


def test_a_configuration_file_with_a_vsock_device_serves_again(
    start: Make, do: Do, folder: Path, guest: dict[str, Any]
) -> None:
    config, path = folder / "config.json", guest["root_drive"]
    drive = {"drive_id": "root", "path_on_host": path, "is_root_device": True}
    whole = {name.replace("_", "-"): value for name, value in guest.items() if name != "root_drive"}
    whole |= {"drives": [drive], "vsock": {"guest_cid": 3, "uds_path": f"{folder}/v.sock"}}
    config.write_text(json.dumps(whole))
    for _ in range(2):
        monitor = start(config_file=config)
        assert (folder / "v.sock").exists()
        do(monitor.stop())
        assert not (folder / "v.sock").exists()


LACKED = pytest.mark.skipif(
    not has_field("SnapshotLoadParams.vsock_override"), reason="not run: the release lacks it"
)


@pytest.mark.parametrize("name", ["v.sock", pytest.param("other.sock", marks=LACKED)])
def test_a_snapshot_with_a_vsock_device_is_restored_again(
    start: Make, do: Do, folder: Path, guest: dict[str, Any], name: str
) -> None:
    saved, first, path = start(), folder / "v.sock", folder / name
    do(saved.client.vsock.set(guest_cid=3, uds_path=first))
    do(saved.client.boot(**guest))
    do(saved.client.vm.update(state="Paused"))
    do(saved.client.snapshot.create(snapshot_path=folder / "state", mem_file_path=folder / "mem"))
    do(saved.stop())
    given: Any = {"mem_backend": {"backend_path": str(folder / "mem"), "backend_type": "File"}}
    if path != first:
        given["vsock_override"] = {"uds_path": str(path)}
    for _ in range(2):
        restored = start()
        do(restored.client.snapshot.load(snapshot_path=folder / "state", **given))
        assert path.exists()
        do(restored.stop())
        assert not first.exists()
        assert not path.exists()


# A monitor that has ended by itself, and what is told of it


def test_a_guest_that_is_done_ends_the_monitor(start: Make, do: Do, guest: dict[str, Any]) -> None:
    monitor = start()
    do(monitor.client.boot(**guest))
    do(monitor.serial.read_until(b"guest is up", timeout=PATIENCE))
    do(monitor.client.action("SendCtrlAltDel"))
    assert do(monitor.wait(PATIENCE)) == 0
    assert do(monitor.stop()) == 0


def test_a_monitor_that_has_ended_is_no_zombie(start: Make, do: Do) -> None:
    monitor = start()
    pid = monitor.pid
    os.kill(pid, signal.SIGKILL)
    assert not do(monitor.log.wait(10_000, PATIENCE))
    with contextlib.suppress(ChildProcessError):
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT):
            os.sched_yield()
    assert not Path(f"/proc/{pid}").exists()
    assert do(monitor.wait(float("inf"))) == -signal.SIGKILL


@both_halves
def test_waiting_has_its_time(start: Make, do: Do) -> None:
    monitor = start()
    with pytest.raises(VmmTimeoutError, match=r"not ended within 0\.01 s"):
        do(monitor.wait(0.01))
    assert monitor.running


@both_halves
def test_calls_say_that_the_monitor_has_ended(start: Make, do: Do) -> None:
    monitor = start()
    os.kill(monitor.pid, signal.SIGKILL)
    with pytest.raises(MonitorExited, match="ended by signal SIGKILL") as failure:
        do(monitor.client.get_version())
    assert failure.value.returncode == -signal.SIGKILL
    assert failure.value.log
    assert failure.value.log[-1] in str(failure.value)
    with pytest.raises(VmmConnectionError):
        do(monitor.client.get_version())
    with pytest.raises(MonitorExited):
        monitor.usage()


async def run_killed(binary: list[str], error: BaseException | None = None) -> None:
    """A block in which the monitor is killed, and an error raised if one is given."""
    async with AsyncMonitor(binary, timeout=PATIENCE) as monitor:
        os.kill(monitor.pid, signal.SIGKILL)
        await monitor.wait(PATIENCE)
        if error is not None:
            raise error


async def test_leaving_the_block_says_that_the_monitor_has_ended(binary: list[str]) -> None:
    with pytest.raises(MonitorExited, match="by signal SIGKILL"):
        await run_killed(binary)


async def test_an_error_on_its_way_is_told_that_the_monitor_has_ended(binary: list[str]) -> None:
    with pytest.raises(KeyError) as failure:
        await run_killed(binary, KeyError("x"))
    assert any("by signal SIGKILL" in note for note in failure.value.__notes__)


def test_leaving_the_block_after_an_ending_in_it_is_silent(binary: list[str]) -> None:
    with Monitor(binary, timeout=PATIENCE) as monitor:
        monitor.kill()
    assert monitor.returncode == -signal.SIGKILL


def test_what_a_monitor_had_is_freed_when_it_is_over(binary: list[str]) -> None:
    freed = threading.Event()
    gc.disable()
    try:
        with Monitor(binary, timeout=PATIENCE) as monitor:
            weakref.finalize(monitor.serial, freed.set)
        del monitor
        assert freed.wait(PATIENCE)
    finally:
        gc.enable()


def test_an_exit_is_told_although_the_caller_ignores_its_children(
    start: Make, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With SIGCHLD ignored, the system collects the children of this process by itself."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        NURSERY.start_over()  # the next one inherits it
        monitor = start()
        os.kill(monitor.pid, signal.SIGKILL)
        assert do(monitor.wait(PATIENCE)) == -signal.SIGKILL
    finally:
        signal.signal(signal.SIGCHLD, before)
        NURSERY.start_over()


def test_a_monitor_whose_keeper_was_killed_is_lost(
    start: Make, do: Do, folder: Path, watch: Watch
) -> None:
    """The nursery ends the monitor, and removes what its record names, whoever else is killed."""
    monitor = start(directory=folder / "vm")
    program, keeper = watch(monitor.pid), watch(keeper_of(monitor.pid))
    wait_until(lambda: len(children_of(NURSERY.pid or 0)) > 1)  # one waits for the next work
    idle = [watch(pid) for pid in children_of(NURSERY.pid or 0) if pid != keeper.pid]
    for each in idle:
        each.send_signal(signal.SIGSTOP)
    keeper.send_signal(signal.SIGKILL)
    assert program.wait(PATIENCE)
    assert do(monitor.wait(PATIENCE)) is None
    assert monitor.ending == "lost"
    with pytest.raises(MonitorExited, match="its keeper was killed"):
        do(monitor.client.get_version())
    wait_until_empty(folder)
    assert do(monitor.stop()) is None
    for each in idle:  # the next test's work is not for one that is about to end
        each.send_signal(signal.SIGKILL)
        assert each.wait(PATIENCE)


def test_one_that_ends_as_soon_as_it_has_started_was_started(
    start: Make, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is known before the start returns; its calls and the end of the block tell of it."""
    say = Owner.say

    def say_and_kill(owner: Owner, word: str) -> None:
        say(owner, word)
        if word == "up":
            os.kill(owner.pid, signal.SIGKILL)
            wait_until(lambda: owner.phase is Phase.FINISHED)

    monkeypatch.setattr(Owner, "say", say_and_kill)
    monitor = start()
    assert monitor.returncode == -signal.SIGKILL
    with pytest.raises(MonitorExited, match="ended by signal SIGKILL"):
        do(monitor.client.get_version())


def test_a_keeper_that_is_killed_after_the_end_loses_no_status(make: Make) -> None:
    owner = make()._owner
    pidfd = Descriptor(os.pidfd_open, os.getpid())
    owner._note("started", [pidfd], str(os.getpid()))
    owner._note("ready", [pidfd])
    owner._note("ended", [], str(-signal.SIGKILL))
    owner._finish()
    assert (owner.ending, owner.returncode) == ("ended", -signal.SIGKILL)


def test_a_monitor_is_not_lost_before_it_has_ended(make: Make) -> None:
    """A killed process frees its memory for some time after its keeper's end is known."""
    owner = make()._owner
    program = subprocess.Popen(["cat"], stdin=subprocess.PIPE)

    def keep_and_be_killed() -> socket.socket:
        pidfd, keeper = Descriptor(os.pidfd_open, program.pid), messages.pair()
        owner._note("started", [pidfd], str(program.pid))
        owner._note("ready", [pidfd])
        keeper[1].close()
        return keeper[0]

    owner._begin(keep_and_be_killed)
    wait_until(owner.has(Phase.READY))
    assert not comes_true(owner, owner.is_over, 0.2)
    assert owner.is_running
    program.communicate()
    assert comes_true(owner, owner.is_over, PATIENCE)
    assert (owner.ending, program.returncode) == ("lost", 0)
