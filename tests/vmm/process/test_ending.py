# mypy: disable-error-code="func-returns-value"

"""Each way in which a monitor can end."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generated_vmm import VmmClient, VmmConnectionError, VmmProtocolError, VmmTimeoutError
from generated_vmm.process import AsyncMonitor, Monitor, MonitorError, MonitorExited, asynchronous
from generated_vmm.process import monitor as blocking
from generated_vmm.process.child import Child
from generated_vmm.process.process import Process
from tests.vmm.process.conftest import PATIENCE, Do, Make


def test_a_monitor_without_a_guest_ends_by_a_signal(start: Make, do: Do) -> None:
    monitor = start()
    folder = monitor.directory
    assert do(monitor.stop()) == monitor.returncode == -signal.SIGTERM
    assert not monitor.running
    assert not folder.exists()


def test_a_guest_that_runs_is_asked_to_end(start: Make, do: Do, guest: dict[str, Any]) -> None:
    monitor = start()
    do(monitor.client.boot(**guest))
    do(monitor.serial.read_until(b"guest is up", timeout=PATIENCE))
    assert do(monitor.stop(grace=PATIENCE)) == 0
    assert b"guest resets" in monitor.serial.read().data


def test_a_guest_is_asked_to_end_whatever_the_monitor_says_of_its_devices(
    start: Make, do: Do, guest: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a monitor of another version."""

    def unreadable(*_: object) -> None:
        raise VmmProtocolError("not what was asked for")

    monitor = start()
    do(monitor.client.boot(**guest))
    do(monitor.serial.read_until(b"guest is up", timeout=PATIENCE))
    monkeypatch.setattr(Process, "note_vsock_of", unreadable)
    assert do(monitor.stop(grace=PATIENCE)) == 0


def test_a_guest_that_cannot_hear_is_not_waited_for(
    start: Make, do: Do, guest: dict[str, Any]
) -> None:
    monitor = start(grace=1000.0)
    do(monitor.client.boot(**guest))
    do(monitor.client.pause())
    assert do(monitor.stop()) == -signal.SIGTERM


def test_without_grace_a_guest_is_not_asked(start: Make, do: Do, guest: dict[str, Any]) -> None:
    monitor = start(grace=0)
    do(monitor.client.boot(**guest))
    assert do(monitor.stop()) == -signal.SIGTERM


def test_a_monitor_that_hangs_is_killed(start: Make, do: Do) -> None:
    monitor = start()
    os.kill(monitor.pid, signal.SIGSTOP)
    assert do(monitor.stop()) == -signal.SIGKILL


def test_a_monitor_is_killed_at_once(start: Make, do: Do, guest: dict[str, Any]) -> None:
    monitor = start()
    folder = monitor.directory
    do(monitor.client.boot(**guest))
    assert do(monitor.kill()) == -signal.SIGKILL
    assert not folder.exists()


def test_ending_twice_is_harmless(start: Make, do: Do) -> None:
    monitor = start()
    first = do(monitor.stop())
    assert do(monitor.stop()) == do(monitor.kill()) == monitor.returncode == first


def test_a_monitor_that_no_signal_ends_is_told_and_keeps_its_files(
    start: Make, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waits in the kernel for a disk that is gone."""
    monitor = start()
    with monkeypatch.context() as patch:
        patch.setattr(Child, "send_signal", lambda *_: None)
        for module in (blocking, asynchronous):
            patch.setattr(module, "KILLING", ((signal.SIGKILL, 0.01),))
        with pytest.raises(MonitorError, match="does not end"):
            do(monitor.kill())
    assert monitor.socket_path.exists()
    assert do(monitor.kill()) == -signal.SIGKILL


def test_nothing_is_signalled_that_has_ended(
    start: Make, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = start()
    os.kill(monitor.pid, signal.SIGKILL)
    do(monitor.wait(PATIENCE))
    sent: list[object] = []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *what: sent.append(what))
    monkeypatch.setattr(os, "kill", lambda *what: sent.append(what))
    assert do(monitor.stop()) == -signal.SIGKILL
    assert sent == []


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


def test_the_socket_of_a_vsock_device_goes(start: Make, do: Do, folder: Path) -> None:
    monitor = start()
    do(monitor.client.vsock.set(guest_cid=3, uds_path=str(folder / "v.sock")))
    assert (folder / "v.sock").exists()
    do(monitor.stop())
    assert not (folder / "v.sock").exists()


def test_the_socket_of_a_vsock_device_that_others_set_goes(
    start: Make, do: Do, folder: Path
) -> None:
    monitor = start(cwd=folder)
    with VmmClient(monitor.socket_path) as another:
        another.vsock.set(guest_cid=3, uds_path="relative.sock")
    assert (folder / "relative.sock").exists()
    do(monitor.stop())
    assert not (folder / "relative.sock").exists()


def test_the_socket_of_a_vsock_device_goes_with_a_monitor_that_was_killed(
    start: Make, do: Do, folder: Path
) -> None:
    monitor = start()
    do(monitor.client.vsock.set(guest_cid=3, uds_path=str(folder / "v.sock")))
    os.kill(monitor.pid, signal.SIGKILL)
    do(monitor.wait(PATIENCE))
    do(monitor.stop())
    assert not (folder / "v.sock").exists()


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
    assert not monitor.log.wait(10_000, PATIENCE)
    with contextlib.suppress(ChildProcessError):
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT):
            os.sched_yield()
    assert not Path(f"/proc/{pid}").exists()
    assert do(monitor.wait(float("inf"))) == -signal.SIGKILL


def test_waiting_has_its_time(start: Make, do: Do) -> None:
    monitor = start()
    with pytest.raises(VmmTimeoutError, match=r"not ended within 0\.01 s"):
        do(monitor.wait(0.01))
    assert monitor.running


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


def run_killed(binary: list[str], error: BaseException | None = None) -> None:
    """A block in which the monitor is killed, and an error raised if one is given."""
    with Monitor(binary, timeout=PATIENCE) as monitor:
        os.kill(monitor.pid, signal.SIGKILL)
        monitor.wait(PATIENCE)
        if error is not None:
            raise error


async def async_run_killed(binary: list[str], error: BaseException | None = None) -> None:
    async with AsyncMonitor(binary, timeout=PATIENCE) as monitor:
        os.kill(monitor.pid, signal.SIGKILL)
        await monitor.wait(PATIENCE)
        if error is not None:
            raise error


@pytest.mark.parametrize("run", [run_killed, async_run_killed])
def test_leaving_the_block_says_that_the_monitor_has_ended(
    binary: list[str], do: Do, run: Callable[..., Any]
) -> None:
    with pytest.raises(MonitorExited, match="by signal SIGKILL"):
        do(run(binary))


@pytest.mark.parametrize("run", [run_killed, async_run_killed])
def test_an_error_on_its_way_is_told_that_the_monitor_has_ended(
    binary: list[str], do: Do, run: Callable[..., Any]
) -> None:
    with pytest.raises(KeyError) as failure:
        do(run(binary, KeyError("x")))
    assert any("by signal SIGKILL" in note for note in failure.value.__notes__)


def test_leaving_the_block_after_an_ending_in_it_is_silent(binary: list[str]) -> None:
    with Monitor(binary, timeout=PATIENCE) as monitor:
        monitor.kill()
    assert monitor.returncode == -signal.SIGKILL


def test_a_process_of_a_used_number_is_another(watch: Callable[[int], Child]) -> None:
    with pytest.raises(ProcessLookupError):
        Child(os.getpid(), start_time=1)
    assert watch(os.getpid()).running


def test_an_exit_status_that_somebody_else_collected_is_not_known(
    start: Make, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    def collected(*_: object) -> None:
        raise ChildProcessError

    monitor = start()
    monkeypatch.setattr(os, "waitid", collected)
    assert do(monitor.stop()) is None
    assert not monitor.running
    assert "only its parent process was told" in repr(monitor)
