# mypy: disable-error-code="func-returns-value"

"""Each way in which a monitor can end."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from generated_vmm import VmmClient
from generated_vmm.process import MonitorError
from tests.vmm.described import has_field
from tests.vmm.process.conftest import PATIENCE, Do, Make, both_halves, keeper_of


def test_a_monitor_without_a_guest_ends_by_a_signal(start: Make, do: Do) -> None:
    monitor = start()
    folder = monitor.directory
    assert do(monitor.stop()) == monitor.returncode == -signal.SIGTERM
    assert not monitor.running
    assert not folder.exists()


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


@both_halves
def test_ending_twice_is_harmless(start: Make, do: Do) -> None:
    monitor = start()
    first = do(monitor.stop())
    assert do(monitor.stop()) == do(monitor.kill()) == monitor.returncode == first


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


def test_an_end_is_known_before_a_stop(start: Make, do: Do) -> None:
    monitor = start()
    os.kill(monitor.pid, signal.SIGKILL)
    do(monitor.wait(PATIENCE))
    assert do(monitor.stop()) == -signal.SIGKILL


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


def test_the_socket_that_another_client_made_goes_with_a_monitor_that_hangs(
    start: Make, do: Do, folder: Path
) -> None:
    """The kernel says which sockets there are; the monitor could not."""
    monitor = start()
    with VmmClient(monitor.socket_path) as client:
        client.vsock.set(guest_cid=3, uds_path=str(folder / "v.sock"))
    os.kill(monitor.pid, signal.SIGSTOP)
    do(monitor.kill())
    assert not (folder / "v.sock").exists()


def test_the_socket_of_a_vsock_device_goes_with_a_monitor_that_was_killed(
    start: Make, do: Do, folder: Path
) -> None:
    monitor = start()
    do(monitor.client.vsock.set(guest_cid=3, uds_path=str(folder / "v.sock")))
    os.kill(monitor.pid, signal.SIGKILL)
    do(monitor.wait(PATIENCE))
    do(monitor.stop())
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


def test_a_snapshot_with_a_vsock_device_is_restored_again(
    start: Make, do: Do, folder: Path, guest: dict[str, Any]
) -> None:
    path, memory = save_with_vsock(start, do, folder, guest)
    for _ in range(2):
        restored = start()
        do(restored.client.snapshot.load(snapshot_path=folder / "state", mem_backend=memory))
        assert path.exists()
        do(restored.stop())
        assert not path.exists()


def save_with_vsock(start: Make, do: Do, folder: Path, guest: dict[str, Any]) -> tuple[Path, Any]:
    """A snapshot: the path of its vsock device's socket, and its memory."""
    saved, path = start(), folder / "v.sock"
    do(saved.client.vsock.set(guest_cid=3, uds_path=path))
    do(saved.client.boot(**guest))
    do(saved.client.vm.update(state="Paused"))
    do(saved.client.snapshot.create(snapshot_path=folder / "state", mem_file_path=folder / "mem"))
    do(saved.stop())
    return path, {"backend_path": str(folder / "mem"), "backend_type": "File"}


@pytest.mark.skipif(
    not has_field("SnapshotLoadParams.vsock_override"), reason="not run: the release lacks it"
)
def test_the_socket_of_a_restored_vsock_device_goes(
    start: Make, do: Do, folder: Path, guest: dict[str, Any]
) -> None:
    first, memory = save_with_vsock(start, do, folder, guest)
    restored, other = start(), folder / "other.sock"
    override: Any = {"vsock_override": {"uds_path": str(other)}}
    do(
        restored.client.snapshot.load(
            snapshot_path=folder / "state", mem_backend=memory, **override
        )
    )
    assert other.exists()
    do(restored.stop())
    assert not first.exists()
    assert not other.exists()
