"""Monitors, jailed users and neighbours that want an owner to touch what is not its monitor's."""

import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from generated_vmm import VmmApiError, VmmClient
from generated_vmm.process import (
    JailedMonitor,
    Monitor,
    MonitorError,
    MonitorStartError,
)
from generated_vmm.process.jail import link_in
from generated_vmm.process.keeper import messages, record
from generated_vmm.process.keeper.keeper import Keeper
from generated_vmm.process.keeper.kernel import FOLDER, Descriptor
from generated_vmm.process.keeper.record import Order, Record, remove_entries
from generated_vmm.transport import UnixChannel
from tests.vmm.process.conftest import PATIENCE, SIMULATED, own_jail

STAND_IN = [sys.executable, "-I", "-S", str(Path(__file__).with_name("stand_in.py"))]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not run: only root has other users")
OTHER = 54_321


@pytest.fixture
def victim(folder: Path) -> Path:
    path = folder / "victim"
    path.write_text("precious")
    return path


@pytest.fixture
def jail(folder: Path) -> Iterator[JailedMonitor]:
    """A jail that was filled."""
    made = own_jail(folder / "jails")
    made.copy_in(__file__, "/file")
    yield made
    made.kill()


def listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def test_links_in_a_jail_lead_removal_nowhere(jail: JailedMonitor, victim: Path) -> None:
    (jail.root / "link").symlink_to(victim)
    (jail.root / "folder").symlink_to(victim.parent)
    os.link(victim, jail.root / "hard")
    jail.stop()
    assert victim.read_text() == "precious"
    assert not jail.directory.exists()


def test_a_tree_that_is_too_deep_to_climb_is_removed(jail: JailedMonitor) -> None:
    folder = os.open(jail.root, FOLDER)
    for _ in range(3_000):
        os.mkdir("deep", dir_fd=folder)
        inner = os.open("deep", FOLDER, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    jail.stop()
    assert not jail.directory.exists()


def test_what_cannot_be_removed_is_an_error_and_no_endless_work(folder: Path) -> None:
    (folder / "kept").touch()
    descriptor = os.open(folder, FOLDER)
    try:
        remove_entries(descriptor, "kept", str(folder), [])
    finally:
        os.close(descriptor)
    assert [each.name for each in folder.iterdir()] == ["kept"]


def require_removed(folder: Path) -> None:
    left: list[str] = []
    with Descriptor(os.open, folder, os.O_RDONLY) as held:
        remove_entries(held.number, "", str(folder), left)
    assert not left
    assert not list(folder.iterdir())


@pytest.mark.parametrize("call", ["rmdir", "unlink"])
def test_what_is_swapped_while_it_is_removed_is_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    swapped, remove = folder / "root" / "swapped", getattr(os, call)
    (swapped if call == "rmdir" else swapped.parent).mkdir(parents=True)
    if call == "unlink":
        swapped.touch()

    def swap_and_remove(name: str, **where: int) -> None:
        if name == swapped.name:
            monkeypatch.setattr(os, call, remove)
            swapped.rename(swapped.with_name("moved"))
            swapped.symlink_to(folder) if call == "rmdir" else swapped.mkdir()
        remove(name, **where)

    monkeypatch.setattr(os, call, swap_and_remove)
    require_removed(folder)


def test_a_full_disk_does_not_keep_a_jail(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder needs a block for a name that is moved into it."""
    (folder / "root" / "dev" / "net").mkdir(parents=True)
    rename = os.rename

    def fail_once(*given: Any, **where: Any) -> None:
        monkeypatch.setattr(os, "rename", rename)
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "rename", fail_once)
    require_removed(folder)


def test_what_is_told_of_a_jail_that_cannot_be_removed_fits_into_a_message(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system is read-only after an error, and the guest's user has made many files."""
    monkeypatch.setattr(record, "_removed", Mock(side_effect=OSError(errno.EROFS, "read-only")))
    for number in range(500):
        (folder / f"{number}{'x' * 200}").touch()
    its = Record(str(folder), None, {}, jailed=True)
    with Descriptor(os.open, folder, os.O_RDONLY) as held:
        left = record.remove(its, held.number)
    assert left[-1] == "500 things in all"
    assert len(json.dumps(left)) < messages.MOST_BYTES


@pytest.mark.parametrize("path", ["/link.sock", "/folder/a.sock"])
def test_a_client_follows_no_link_out_of_a_jail(
    jail: JailedMonitor, folder: Path, path: str
) -> None:
    (jail.root / "link.sock").symlink_to(folder / "a.sock")
    (jail.root / "folder").symlink_to(folder)
    with (
        listen(folder / "a.sock"),
        pytest.raises(OSError, match=r"symbolic links|directory|socket"),
    ):
        jail._place.open_socket(path, jail._owner.opened_root())


@needs_root
def test_a_client_connects_to_sockets_of_the_monitors_user_alone(
    jail: JailedMonitor, folder: Path
) -> None:
    opened = partial(jail._place.open_socket, root=jail._owner.opened_root())
    with listen(jail.root / "a.sock"):
        os.chown(jail.root / "a.sock", 1, 1)
        opened("/a.sock")
        os.chown(jail.root / "a.sock", OTHER, OTHER)
        with pytest.raises(PermissionError, match="no socket of user 1"):
            opened("/a.sock")


def test_a_client_talks_to_no_other_process(folder: Path) -> None:
    """It reaches its monitor, whatever has the name of its socket."""
    with Monitor(SIMULATED, directory=folder, timeout=PATIENCE) as monitor:
        monitor.client.get_version()
        monitor.socket_path.rename(folder / "moved")
        channel = UnixChannel(str(monitor.socket_path), connect=monitor.connect)
        with (
            listen(monitor.socket_path),
            VmmClient(monitor.socket_path, transport=channel) as client,
        ):
            assert client.get_instance_info().state == "Not started"
        monitor.kill()
        (folder / "moved").rename(monitor.socket_path)


def test_a_monitor_is_not_ready_if_another_process_listens_on_its_socket(folder: Path) -> None:
    program = folder / "firecracker"
    program.write_text(f"#!/bin/sh\nln {folder}/other {folder}/vm/api.socket\nexec sleep 1000\n")
    program.chmod(0o755)
    with (
        listen(folder / "other"),
        pytest.raises(MonitorStartError, match="listens there, and not the monitor"),
    ):
        Monitor(program, directory=folder / "vm", timeout=0.3).start()


def stand_in_after(code: str) -> list[str]:
    """The stand-in, whose program executes this before."""
    then = f"import runpy; runpy.run_path({STAND_IN[-1]!r}, run_name='__main__')"
    return [*STAND_IN[:-1], "-c", f"{code}\n{then}"]


def with_vsock(folder: Path, program: list[str], **options: Any) -> Monitor:
    monitor = Monitor(program, directory=folder / "vm", timeout=PATIENCE, **options).start()
    monitor.client.vsock.set(guest_cid=3, uds_path=str(folder / "v.sock"))
    return monitor


def test_calls_that_are_refused_all_the_time_leave_nothing(folder: Path) -> None:
    with Monitor(SIMULATED, directory=folder / "vm", timeout=PATIENCE) as monitor:
        before = (folder / "vm" / "monitor.json").read_bytes()
        for _ in range(600):
            with pytest.raises(VmmApiError):
                monitor.client.vsock.set(guest_cid=3, uds_path=str(folder / "none" / "v.sock"))
        assert (folder / "vm" / "monitor.json").read_bytes() == before
    assert not list(folder.iterdir())


@needs_root
def test_a_monitor_runs_where_proc_shows_processes_alone(folder: Path) -> None:
    """As in a service with `ProcSubset=pid` of systemd."""
    code = f"from generated_vmm.process import Monitor\nMonitor({STAND_IN}).start().stop()"
    mounted = 'mount -t proc -o subset=pid proc /proc && ! [ -e /proc/mounts ] && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mounted, "sh", sys.executable, "-c", code]
    subprocess.run(command, check=True)


def test_a_socket_that_is_not_the_monitors_is_left(folder: Path) -> None:
    """The monitor says that it has bound the socket of a service."""
    lies = "import socket; bind = socket.socket.bind; "
    lies += "socket.socket.bind = lambda self, at: bind(self, b'' if 'v.sock' in str(at) else at)"
    with listen(folder / "v.sock"):
        monitor = with_vsock(folder, stand_in_after(lies))
        assert json.loads((folder / "vm" / "monitor.json").read_text())["sockets"] == []
        monitor.stop()
        assert [each.name for each in folder.iterdir()] == ["v.sock"]


@pytest.mark.parametrize(
    "said",
    [
        *(b"", b"{}", b"[]", b"null", b"\xff", b"[" * 60_000, b"x" * 100_000),
        *(b'{"vsock": null}', b'{"vsock": {}}', b'{"vsock": {"uds_path": 1}}'),
        *(b'{"vsock": {"uds_path": ""}}', b'{"vsock": {"uds_path": "a\\u0000b"}}'),
    ],
)
def test_whatever_a_monitor_says_of_sockets_its_keeper_continues(
    folder: Path, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "ANSWER_SECONDS", 0.1)
    its = Record(str(folder), None, {}, jailed=False)
    order = Order(its, user=(0, 0), argv=(), env={}, cwd="/", detached=False)
    (ours, theirs), listening = messages.pair(), listen(folder / "api")
    with ours, theirs, listening as listener, ThreadPoolExecutor(1) as thread:
        keeper = Keeper(theirs, order)
        keeper._api = Descriptor(os.open, folder / "api", os.O_PATH)
        noting = thread.submit(keeper._note_vsock)
        with listener.accept()[0] as connection, contextlib.suppress(BrokenPipeError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + said)
            noting.result()
    assert its.sockets == []


@needs_root
def test_a_socket_of_a_monitor_in_another_network_namespace_goes(folder: Path) -> None:
    monitor = with_vsock(folder, ["unshare", "-n", *STAND_IN])
    monitor.stop()
    assert not list(folder.iterdir())


@needs_root
def test_a_socket_is_removed_where_it_was_made_alone(folder: Path) -> None:
    """A tenant swaps its folder for a link to that of a service, with a socket of that name."""
    tenant, service = folder / "tenant", folder / "service"
    for path in (tenant, service):
        path.mkdir()
    os.chown(tenant, OTHER, OTHER)
    monitor = Monitor(STAND_IN, timeout=PATIENCE).start()
    monitor.client.vsock.set(guest_cid=3, uds_path=str(tenant / "v.sock"))
    tenant.rename(folder / "moved")
    tenant.symlink_to(service)
    with listen(service / "v.sock"):
        monitor.stop()
        assert [each.name for each in service.iterdir()] == ["v.sock"]


def test_a_stranger_at_a_relative_path_is_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths are resolved once: the caller changes its folder after the start."""
    for name in ("first", "second"):
        (folder / name).mkdir()
    monkeypatch.chdir(folder / "first")
    monitor = Monitor(STAND_IN, directory="vm", timeout=PATIENCE).start()
    monitor.client.vsock.set(guest_cid=3, uds_path="v.sock")
    monkeypatch.chdir(folder / "second")
    (folder / "second" / "vm").mkdir()
    with listen(folder / "second" / "v.sock"), listen(folder / "second" / "vm" / "api.socket"):
        assert monitor.client.get_instance_info().state == "Not started"
        monitor.stop()
        assert len(list((folder / "second").rglob("*"))) == 3
    assert list((folder / "first").iterdir()) == []


@needs_root
def test_a_folder_of_somebody_else_is_not_taken(folder: Path) -> None:
    (folder / "vm").mkdir()
    (folder / "vm" / "monitor.json").write_text(json.dumps({"things": []}))
    os.chown(folder / "vm", OTHER, OTHER)
    with pytest.raises(MonitorStartError, match=f"belongs to user {OTHER}, not to 0"):
        Monitor(SIMULATED, directory=folder / "vm").start()
    with pytest.raises(MonitorError, match=f"belongs to user {OTHER}, not to 0"):
        Monitor.attach(folder / "vm")
    os.chown(folder / "vm", 0, 0)
    (folder / "vm").chmod(0o770)
    with pytest.raises(MonitorStartError, match="can be changed by others"):
        Monitor(SIMULATED, directory=folder / "vm").start()
    assert [each.name for each in (folder / "vm").iterdir()] == ["monitor.json"]


def test_a_link_in_the_place_of_the_state_is_not_followed(folder: Path, victim: Path) -> None:
    (folder / "vm").mkdir(mode=0o700)
    (folder / "vm" / "monitor.json").symlink_to(victim)
    with pytest.raises(MonitorStartError, match="cannot be read"):
        Monitor(SIMULATED, directory=folder / "vm").start()
    assert victim.read_text() == "precious"


@needs_root
def test_a_file_is_given_through_its_descriptor(
    jail: JailedMonitor, folder: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jailed user swaps the name between the link and the change of its owner."""
    disk = folder / "disk"
    disk.touch()
    change = os.fchown

    def swapped(descriptor: int, *owner: int) -> None:
        (jail.root / "disk").unlink()
        os.link(victim, jail.root / "disk")
        change(descriptor, *owner)

    monkeypatch.setattr(os, "fchown", swapped)
    link_in(jail._owner.opened_root().number, disk, "/disk", (OTHER, OTHER), give=True)
    assert disk.stat().st_uid == OTHER
    assert victim.stat().st_uid == 0


def test_one_of_many_starters_gets_a_folder(folder: Path) -> None:
    barrier = threading.Barrier(8)

    def start(number: int) -> str | None:
        monitor = Monitor(STAND_IN, directory=folder / "vm", timeout=PATIENCE)
        barrier.wait()
        try:
            monitor.start()
        except MonitorStartError as error:
            return str(error)
        finally:
            barrier.wait()
            monitor.kill()
        return None

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(start, range(8)))
    assert results.count(None) == 1
    assert all("in use by process" in each for each in results if each)
    assert not (folder / "vm").exists()


def test_escape_sequences_of_a_monitor_do_not_reach_the_terminal(folder: Path) -> None:
    program = folder / "firecracker"
    program.write_text("#!/bin/sh\nprintf '\\033[2Jboo\\n' >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(MonitorStartError, match=r"\\x1b\[2Jboo"):
        Monitor(program, timeout=PATIENCE).start()
