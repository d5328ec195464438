# mypy: disable-error-code="func-returns-value"

"""Monitors that survive their caller, and are taken up by another."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generated_vmm.process import (
    AsyncMonitor,
    Monitor,
    MonitorError,
    MonitorExited,
    MonitorStartError,
)
from generated_vmm.process.child import Child, Descriptor
from generated_vmm.process.workspace import Workspace
from tests.vmm.process.conftest import PATIENCE, Do, Make

WRONG_TYPES = '{"owner": ["a", 1], "process": null, "boot_id": "", "things": [], "how": {}}'
STARTS_ONE = """\
import json, sys
from generated_vmm.process import Monitor
binary, folder = json.loads(sys.argv[1]), sys.argv[2]
monitor = Monitor(binary, id="vm-1", directory=folder, detached=True, timeout=30).start()
print(monitor.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def attach(make: Make, do: Do, request: pytest.FixtureRequest) -> Any:
    """Takes a monitor up, and ends it with the test."""
    taken: list[Monitor] = []
    kind = type(make())

    def attach(folder: Path) -> Monitor:
        taken.append(do(kind.attach(folder)))
        return taken[-1]

    yield attach
    for monitor in taken:
        do(monitor.kill())


def start_elsewhere(binary: list[str], folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE, json.dumps(binary), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def test_a_detached_monitor_outlives_its_caller_and_is_taken_up(
    attach: Callable[[Path], Monitor], do: Do, binary: list[str], folder: Path, watch: Any
) -> None:
    with start_elsewhere(binary, folder / "vm") as caller:
        assert caller.stdout is not None
        child: Child = watch(int(caller.stdout.readline()))
        caller.kill()
    monitor = attach(folder / "vm")
    assert monitor.pid == child.pid
    assert monitor.id == "vm-1"
    assert do(monitor.client.get_instance_info()).id == "vm-1"
    assert do(monitor.stop()) is None
    assert child.wait(0)
    assert not (folder / "vm").exists()


def test_a_monitor_that_was_let_go_is_taken_up(
    start: Make, attach: Callable[[Path], Monitor], do: Do, folder: Path, guest: dict[str, Any]
) -> None:
    first = start(directory=folder, detached=True)
    do(first.client.boot(**guest))
    do(first.serial.read_until(b"guest is up", timeout=PATIENCE))
    do(first.detach())
    second = attach(folder)
    assert second.pid == first.pid
    do(second.serial.write(b"a\n"))
    do(second.serial.read_until(b"guest hears a", timeout=PATIENCE))
    assert do(second.stop(grace=PATIENCE)) == 0


def test_one_whose_attach_is_interrupted_at_the_end_can_be_taken_up_again(
    start: Make,
    attach: Callable[[Path], Monitor],
    do: Do,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(_: Monitor) -> None:
        raise KeyboardInterrupt

    first = start(directory=folder, detached=True)
    do(first.detach())
    with monkeypatch.context() as patched:
        patched.setattr(type(first), "_connect", interrupt)
        with pytest.raises(KeyboardInterrupt):
            attach(folder)
    assert attach(folder).pid == first.pid


def test_leaving_the_block_lets_go_of_a_detached_monitor(
    attach: Callable[[Path], Monitor], do: Do, binary: list[str], folder: Path
) -> None:
    with Monitor(binary, directory=folder, detached=True, timeout=PATIENCE) as monitor:
        pass
    assert attach(folder).pid == monitor.pid


async def test_leaving_the_async_block_lets_go_of_a_detached_monitor(
    binary: list[str], folder: Path
) -> None:
    options: Any = {"directory": folder, "detached": True, "timeout": PATIENCE}
    async with AsyncMonitor(binary, **options) as monitor:
        pass
    taken = await AsyncMonitor.attach(folder)
    assert taken.pid == monitor.pid
    await taken.kill()


def test_one_that_has_ended_is_not_taken_up(
    start: Make, attach: Callable[[Path], Monitor], do: Do, folder: Path
) -> None:
    monitor = start(directory=folder, detached=True)
    do(monitor.detach())
    os.kill(monitor.pid, signal.SIGKILL)
    os.waitpid(monitor.pid, 0)
    with pytest.raises(MonitorExited, match="has ended"):
        attach(folder)


@pytest.mark.parametrize("written", ["process", "boot_id"])
def test_another_process_of_the_same_number_is_not_taken_up(
    start: Make,
    attach: Callable[[Path], Monitor],
    do: Do,
    folder: Path,
    written: str,
) -> None:
    monitor = start(directory=folder, detached=True)
    do(monitor.detach())
    path = folder / "monitor.json"
    right = path.read_text()
    wrong = {"process": [monitor.pid, 1], "boot_id": "another"}[written]
    path.write_text(json.dumps({**json.loads(right), written: wrong}))
    with pytest.raises(MonitorExited, match="has ended"):
        attach(folder)
    path.write_text(right)
    assert attach(folder).running


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"pid": 1}', "\ud800", WRONG_TYPES])
def test_a_folder_of_no_monitor_is_refused(
    attach: Callable[[Path], Monitor], folder: Path, content: str
) -> None:
    with pytest.raises(MonitorError, match="not the folder of a detached monitor"):
        attach(folder)
    (folder / "monitor.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(MonitorError, match="cannot be read"):
        attach(folder)


def test_what_somebody_else_wrote_down_is_refused(
    start: Make, attach: Callable[[Path], Monitor], do: Do, folder: Path
) -> None:
    first = start(directory=folder, detached=True)
    do(first.detach())
    path = folder / "monitor.json"
    written = json.loads(path.read_text())
    for how in ({}, {**written["how"], "settings": {"unknown": 1}}, {"jailer": "jailer"}):
        path.write_text(json.dumps({**written, "how": how}))
        with pytest.raises(MonitorError, match="has no monitor of this kind"):
            attach(folder)
    path.write_text(json.dumps(written))
    path.chmod(0o666)
    with pytest.raises(MonitorError, match="other users than"):
        attach(folder)
    path.chmod(0o600)
    folder.chmod(0o777)
    with pytest.raises(MonitorError, match="can be changed by others"):
        attach(folder)
    folder.chmod(0o700)
    attach(folder)


@pytest.mark.parametrize("change", ["missing", "folder", "file", "link"])
def test_one_whose_outlets_were_changed_is_taken_up(
    start: Make, attach: Callable[[Path], Monitor], do: Do, folder: Path, change: str
) -> None:
    """The user of a jail can do that; then the outlet stays empty."""
    first = start(directory=folder / "vm", detached=True)
    do(first.detach())
    for name in ("log", "metrics", "console.out"):
        path = folder / "vm" / name
        path.unlink()
        if change == "folder":
            path.mkdir()
        elif change == "file":
            path.write_text("a line\n")
        elif change == "link":
            path.symlink_to(folder)
    before = len(os.listdir("/proc/self/fd"))
    second = attach(folder / "vm")
    assert second.pid == first.pid
    assert list(second.log) == []
    do(second.stop())
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_failure_of_the_system_is_an_error_of_the_monitor(
    start: Make, attach: Callable[[Path], Monitor], do: Do, folder: Path
) -> None:
    first = start(directory=folder, detached=True)
    do(first.detach())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workspace, "take_back", refuse)
        with pytest.raises(MonitorError, match="cannot be taken up: no descriptors"):
            attach(folder)
    attach(folder)


def refuse(self: Workspace, descriptor: int, _: object) -> None:
    self._folder = Descriptor(descriptor)
    raise OSError("no descriptors")


def test_one_that_was_started_with_relative_paths_is_found_from_elsewhere(
    start: Make,
    attach: Callable[[Path], Monitor],
    do: Do,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    first = start(directory="vm", socket_path="vm.socket", detached=True)
    do(first.client.vsock.set(guest_cid=3, uds_path="v.sock"))
    do(first.detach())
    monkeypatch.chdir("/")
    second = attach(folder / "vm")
    assert second.socket_path == folder / "vm.socket"
    do(second.stop())
    assert list(folder.iterdir()) == []


def test_what_is_written_down_is_for_its_owner_and_has_no_environment(
    start: Make, folder: Path
) -> None:
    start(directory=folder, detached=True, env={**os.environ, "TOKEN": "not-for-files"})
    path = folder / "monitor.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "not-for-files" not in path.read_text()


def test_a_folder_in_which_one_runs_is_taken(make: Make, start: Make, do: Do, folder: Path) -> None:
    first = start(directory=folder, detached=True)
    with pytest.raises(MonitorStartError, match="in use by process"):
        do(make(directory=folder, detached=True).start())
    do(first.detach())
    with pytest.raises(MonitorStartError, match="attach to it"):
        do(make(directory=folder, detached=True).start())
    again = do(type(first).attach(folder))
    assert do(again.client.get_instance_info()).state == "Not started"
    with pytest.raises(MonitorError, match="in use by process"):
        do(type(first).attach(folder))
    do(again.kill())


def test_a_folder_of_one_that_has_ended_is_used_again(start: Make, do: Do, folder: Path) -> None:
    first = start(directory=folder, detached=True)
    do(first.detach())
    os.kill(first.pid, signal.SIGKILL)
    os.waitpid(first.pid, 0)
    second = start(directory=folder, detached=True)
    assert do(second.client.get_instance_info()).state == "Not started"


def test_only_a_detached_monitor_is_let_go(start: Make, do: Do) -> None:
    monitor = start()
    with pytest.raises(MonitorError, match="only a detached"):
        do(monitor.detach())
    assert monitor.running


def test_a_detached_monitor_needs_a_folder(make: Make) -> None:
    with pytest.raises(ValueError, match="needs a directory"):
        make(detached=True)
