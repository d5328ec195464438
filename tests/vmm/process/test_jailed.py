# mypy: disable-error-code="func-returns-value"

"""The real jailer and the real monitor, for which one has to be root."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from generated_vmm import VmmApiError
from generated_vmm.process import AsyncJailedMonitor, JailedMonitor, MonitorError, MonitorStartError
from generated_vmm.process.__main__ import main
from tests.vmm.process.conftest import PATIENCE, Do, Make, making

USER = 54_321


@pytest.fixture
def programs() -> list[str]:
    """The jailer and the monitor."""
    names = [os.environ.get(name) for name in ("JAILER_BIN", "FIRECRACKER_BIN")]
    if not all(names) or os.geteuid() != 0:
        pytest.skip("not run: a jail needs root, JAILER_BIN and FIRECRACKER_BIN")
    found = [shutil.which(name or "") for name in names]
    assert all(found), names
    return [os.path.abspath(name or "") for name in found]


@pytest.fixture
def make(do: Do, programs: list[str], folder: Path) -> Iterator[Make]:
    usual = {"id": "vm-1", "uid": USER, "gid": USER, "chroot_base_dir": folder / "jails"}
    yield from making(AsyncJailedMonitor, do, programs, **usual)


def boot(monitor: JailedMonitor, do: Do, guest: dict[str, Any]) -> None:
    kernel = guest["boot_source"]["kernel_image_path"]
    source = {
        **guest["boot_source"],
        "kernel_image_path": do(monitor.copy_in(kernel, "/vm/kernel")),
    }
    disk = do(monitor.copy_in(guest["root_drive"]))
    do(monitor.client.boot(source, disk, guest["machine_config"]))
    do(monitor.serial.read_until(b"guest is up", timeout=PATIENCE))


def test_a_path_of_the_host_is_refused_with_a_word_of_the_jail(
    start: Any, do: Do, guest: dict[str, Any]
) -> None:
    client = start().client
    for vm in (client, client.with_options(timeout=PATIENCE)):
        with pytest.raises(VmmApiError, match="No such file") as refused:
            do(vm.boot(guest["boot_source"]))
        assert refused.value.__notes__ == [
            f'"{guest["boot_source"]["kernel_image_path"]}" does not exist: paths are those inside '
            "of the jail, as monitor.copy_in(file) and link_in(file) return them"
        ]


def test_a_disk_that_the_jailed_user_may_not_write(make: Any, do: Do, folder: Path) -> None:
    monitor = make()
    (folder / "disk").write_bytes(bytes(512))
    disk = do(monitor.link_in(folder / "disk"))
    do(monitor.start())
    with pytest.raises(VmmApiError, match="Permission denied") as refused:
        do(monitor.client.drive("a").set(path_on_host=disk, is_root_device=False))
    assert refused.value.__notes__ == [
        '"/disk" belongs to another user: link_in(file, give=True) makes the jailed user the owner'
    ]


def test_a_guest_runs_in_a_jail(start: Any, do: Do, guest: dict[str, Any]) -> None:
    monitor = start()
    boot(monitor, do, guest)
    status = Path(f"/proc/{monitor.pid}/status").read_text().split("\n")
    assert f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}" in status
    assert os.path.samefile(f"/proc/{monitor.pid}/root", monitor.root)
    do(monitor.serial.write(b"a"))
    do(monitor.serial.read_until(b"guest hears a", timeout=PATIENCE))
    do(monitor.client.action("FlushMetrics"))
    assert do(monitor.metrics.wait(0, PATIENCE))
    assert do(monitor.stop(grace=PATIENCE)) == 0
    assert not monitor.directory.exists()


def test_a_linked_file_is_given_to_the_jailed_user_if_wanted(
    make: Any, do: Do, folder: Path
) -> None:
    for name in ("kept", "given"):
        (folder / name).touch()
    monitor = make()
    do(monitor.link_in(folder / "kept"))
    do(monitor.link_in(folder / "given", give=True))
    owners = {name: (folder / name).stat().st_uid for name in ("kept", "given")}
    assert owners == {"kept": 0, "given": USER}
    (folder / "link").symlink_to(folder / "kept")
    with pytest.raises(OSError, match="symbolic links"):
        do(monitor.link_in(folder / "link", "/other", give=True))
    assert (folder / "kept").stat().st_uid == 0
    elsewhere = tempfile.NamedTemporaryFile(dir="/dev/shm")  # noqa: SIM115
    with elsewhere, pytest.raises(OSError, match="cross-device"):
        do(monitor.link_in(elsewhere.name))


def test_a_log_in_a_folder_that_the_jail_lacks(make: Any, do: Do, folder: Path) -> None:
    with pytest.raises(MonitorStartError, match="LoggerInitialization"):
        do(make(log_path=folder / "log").start())


def test_the_sockets_of_a_jail_are_seen_from_outside(start: Any, do: Do) -> None:
    monitor = start()
    assert monitor.socket_path == monitor.root / "api.socket"
    do(monitor.client.vsock.set(guest_cid=3, uds_path="/run/v.sock"))
    assert monitor.outside("/run/v.sock").is_socket()


def test_control_groups_are_made_and_removed(start: Any, do: Do) -> None:
    mounts = Path("/proc/self/mounts").read_text()
    version, limit = (1, "pids") if " cgroup rw" in mounts and ",pids" in mounts else (2, "pids")
    try:
        monitor = start(cgroups={f"{limit}.max": "99"}, cgroup_version=version)
    except MonitorStartError as refused:
        pytest.skip(f"not run: no control group with {limit} here: {refused}")
    folders = groups_of(monitor)
    limits = [each / "pids.max" for each in folders if each.name == "vm-1"]
    assert [each.read_text().strip() for each in limits] == ["99"]
    do(monitor.stop())
    assert not any(each.exists() for each in folders)


def groups_of(monitor: JailedMonitor) -> list[Path]:
    """The control groups that a jail's record names."""
    record = json.loads((monitor.directory / "monitor.json").read_text())
    return [Path(each) for each in record["groups"]]


def test_what_cannot_be_removed_is_told_and_stays_in_the_list(
    start: Any, do: Do, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group below the jail's control group keeps it; the rest is removed all the same."""
    try:
        monitor = start(cgroups={"pids.max": "99"}, cgroup_version=1)
    except MonitorStartError as refused:
        pytest.skip(f"not run: no control group of version 1 here: {refused}")
    (group,) = groups_of(monitor)
    (group / "below").mkdir()
    with pytest.raises(MonitorError, match=f"could not be removed: {group}: .*busy"):
        do(monitor.stop())
    assert monitor.returncode == -signal.SIGKILL
    assert [each.name for each in monitor.directory.iterdir()] == ["monitor.json"]
    path = str(monitor.directory)
    main(["list", path])
    assert f"leftover         -  vm-1                 {path}" in capsys.readouterr().out
    (group / "below").rmdir()
    main(["clean", path])
    assert not group.exists()
    assert not monitor.directory.exists()


def test_a_monitor_in_a_pid_namespace_of_its_own_is_found_and_ended(
    start: Any, do: Do, guest: dict[str, Any]
) -> None:
    monitor = start(new_pid_ns=True)
    boot(monitor, do, guest)
    status = Path(f"/proc/{monitor.pid}/status").read_text()
    assert f"NSpid:\t{monitor.pid}\t1" in status
    assert do(monitor.stop(grace=PATIENCE)) == 0
    assert not monitor.running
    assert not monitor.directory.exists()


def test_the_files_read_at_the_start_are_copied_in(
    start: Any, do: Do, folder: Path, guest: dict[str, Any]
) -> None:
    (folder / "metadata").write_text('{"a": "b"}')
    monitor = start(metadata=folder / "metadata")
    assert do(monitor.client.mmds.get()) == {"a": "b"}


def test_a_refusal_of_the_jailer_is_shown(make: Make, do: Do, programs: list[str]) -> None:
    monitor = make(programs[0], "/bin/true")
    with pytest.raises(MonitorStartError, match="Failed to exec"):
        do(monitor.start())
    assert not monitor.directory.exists()


def test_a_jail_in_which_something_is_mounted_is_left(start: Any, do: Do, folder: Path) -> None:
    """What is mounted there is not the jail's; removing the jail would remove it."""
    (folder / "precious").mkdir()
    (folder / "precious" / "file").touch()
    monitor = start()
    target = monitor.root / os.fsdecode("a\\b\u00a0c\u3000\td\r\f\u0085".encode() + b"\xff")
    target.mkdir()
    subprocess.run(["mount", "--bind", folder / "precious", target], check=True)
    try:
        with pytest.raises(MonitorError, match=r"could not be removed: .*: something is mounted"):
            do(monitor.stop())
        assert (folder / "precious" / "file").exists()
        assert [each.name for each in monitor.root.iterdir()] == [target.name]
    finally:
        subprocess.run(["umount", target], check=True)
    main(["clean", str(monitor.directory)])
    assert not monitor.directory.exists()


def test_a_detached_jail_is_taken_up(start: Any, do: Do) -> None:
    first = start(detached=True)
    do(first.detach())
    second = do(type(first).attach(first.directory))
    assert second.pid == first.pid
    assert second.root == first.root
    assert do(second.kill()) == -signal.SIGKILL
    assert not first.directory.exists()
    with pytest.raises(MonitorError, match="not the folder"):
        do(type(first).attach(first.directory))
