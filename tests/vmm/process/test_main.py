"""`python -m generated_vmm.process`: what is shown of a host's monitors, and what is removed."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from generated_vmm.process import Monitor, MonitorStartError
from generated_vmm.process import __main__ as program
from generated_vmm.process.__main__ import main
from generated_vmm.process.keeper import kernel
from generated_vmm.process.keeper.record import UNRECORDED
from generated_vmm.process.nursery import NURSERY
from tests.vmm.process.conftest import (
    PATIENCE,
    STARTS_ONE,
    WAITS,
    Call,
    Watch,
    Watched,
    children_of,
    keeper_of,
    nursery_of,
    own_jail,
)

taps = pytest.importorskip("generated_vmm.process.keeper.taps", reason="not run: it needs pyroute2")
TAPS: list[tuple[str, str]] = []
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not run: it needs root")


@pytest.fixture(autouse=True)
def _host(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other processes start is elsewhere."""
    monkeypatch.setattr(program, "USUAL_FOLDERS", (f"{folder}/usual-*",))
    monkeypatch.setattr(taps, "leftovers", lambda: iter(TAPS))
    TAPS.clear()


def test_taps_without_an_owner_are_shown_and_removed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[object] = []
    monkeypatch.setattr(taps, "clean", lambda *what: removed.append(what))
    TAPS.append(("tap0", "mark"))
    assert main(["list"]) == 0
    assert lines(capsys) == [["leftover", "-", "tap0", "/sys/class/net/tap0"]]
    assert removed == []
    assert main(["clean"]) == 0
    assert lines(capsys) == [["removed", "-", "tap0", "/sys/class/net/tap0"]]
    assert removed == [("tap0", "mark")]


def test_a_host_that_shows_no_taps_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taps, "leftovers", Mock(side_effect=PermissionError("no netlink")))
    assert main(["list"]) == 1
    assert capsys.readouterr().err == "taps: no netlink\n"


def lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """What was printed, without the titles."""
    return [line.split() for line in capsys.readouterr().out.splitlines()[1:]]


def test_monitors_are_shown_with_their_owner(
    binary: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(folder / "web")
    monitor = Monitor(binary, directory=path, id="web", detached=True, timeout=PATIENCE)
    with monitor:
        assert main(["list", path]) == main(["clean", path]) == 0
        owned, *cleaned = lines(capsys)
        assert owned == ["owned", str(monitor.pid), "web", path]
        assert cleaned == [["STATUS", "PID", "ID", "FOLDER"]]
    main(["list", path])
    assert lines(capsys) == [["detached", str(monitor.pid), "web", path]]
    again = Monitor.attach(folder / "web")
    assert again.running
    again.kill()
    main(["list", path])
    assert lines(capsys) == []


@pytest.mark.parametrize("command", ["list", "clean"])
def test_a_folder_that_is_no_monitors_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (folder / "other").mkdir()
    for path in (folder / "other", folder / "misspelled"):
        assert main([command, str(path)]) == 0  # nothing is left to clean
        told = f"{path}: no monitor keeps its files in this folder\n"
        assert capsys.readouterr().err == told


def killed_together(call: Call, watch: Watch) -> Watched:
    """A monitor whose caller, nursery and keeper were killed, as by the lack of memory."""
    caller = call(STARTS_ONE.format(False) + WAITS)
    monitor, pid = watch(caller.told()["pid"]), caller.process.pid
    family = [watch(each) for each in (pid, nursery_of(pid), keeper_of(monitor.pid))]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for each in family:
            each.send_signal(number)
    assert all(each.wait(PATIENCE) for each in family)
    return monitor


def test_what_nobody_owns_is_removed(
    call: Call, folder: Path, capsys: pytest.CaptureFixture[str], watch: Watch
) -> None:
    path = str(folder / "vm")
    monitor = killed_together(call, watch)
    assert monitor.wait(PATIENCE)  # the kernel ends an unjailed one with its keeper
    assert main(["list", path]) == 0
    assert lines(capsys) == [["leftover", "-", "vm-1", path]]
    assert main(["clean", path]) == 0
    assert lines(capsys) == [["removed", "-", "vm-1", path]]
    assert not (folder / "vm").exists()


HOLDS_A_LOCK = """\
import fcntl, os, sys
os.open(sys.argv[1], os.O_RDWR) == 3 and fcntl.flock(3, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


@needs_root
@pytest.mark.parametrize("is_hidden", [False, True])
def test_a_monitor_that_runs_without_a_keeper_is_never_taken_for_dead(
    folder: Path, capsys: pytest.CaptureFixture[str], watch: Watch, is_hidden: bool
) -> None:
    """Its lock says that it runs. It is ended if it can be seen, as by a clean on the host of a
    container's monitors; from a neighbour's PID namespace it is neither ended nor removed."""
    path = folder / "jails" / "true" / "vm-1"
    own_jail(folder / "jails").copy_in(__file__, "/disk")
    for pid in (NURSERY.pid, *children_of(NURSERY.pid or 0)):
        os.kill(pid or 0, signal.SIGSTOP)
    for pid in (*children_of(NURSERY.pid or 0), NURSERY.pid):
        os.kill(pid or 0, signal.SIGKILL)
    os.mkfifo(path / "console.in")
    holder = [sys.executable, "-c", HOLDS_A_LOCK, str(path / "console.in")]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(holder, **pipes) as monitor:
        assert monitor.stdout is not None
        monitor.stdout.readline()
        if not is_hidden:
            assert main(["clean", str(path)]) == 0
            assert monitor.wait(PATIENCE) == -signal.SIGKILL
            assert not path.exists()
            return
        elsewhere = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable]
        command = [*elsewhere, "-m", "generated_vmm.process", "clean", str(path)]
        cleaned = subprocess.run(command, capture_output=True, text=True, check=False)
        assert cleaned.returncode == 1
        assert "a process that cannot be seen from here: in another PID names" in cleaned.stderr
        assert monitor.poll() is None
        assert (path / "root" / "disk").exists()
        monitor.kill()
    assert main(["clean", str(path)]) == 0
    assert not path.exists()


@needs_root
def test_a_monitor_in_a_container_is_left_by_its_neighbours(
    call: Call, binary: list[str], folder: Path
) -> None:
    """Its numbers mean nothing outside of its PID namespace; its lock and its keeper do."""
    path = folder / "vm"
    container = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    call(STARTS_ONE.format(True) + WAITS, *container).told()
    for neighbour in ([], container):
        clean = [*neighbour, sys.executable, "-m", "generated_vmm.process", "clean", str(path)]
        subprocess.run(clean, check=False, capture_output=True)
        assert (path / "api.socket").is_socket()
    with pytest.raises(MonitorStartError, match="in use by process"):
        Monitor(binary, directory=path).start()
    assert (path / "api.socket").is_socket()


@pytest.mark.parametrize("files", [[], ["monitor.new"]])
def test_a_folder_whose_keeper_was_killed_before_it_had_a_record_is_removed(
    folder: Path, capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    """It is in one of the usual folders, of which others may be no monitor's."""
    path = folder / "usual-1"
    path.mkdir(UNRECORDED)
    (folder / "usual-2").mkdir()
    (folder / "usual-3").touch()
    for name in files:
        (path / name).write_text("{")
    assert main(["list"]) == main(["clean"]) == 0
    columns = ["-", "-", str(path)]
    titles = ["STATUS", "PID", "ID", "FOLDER"]
    assert lines(capsys) == [["leftover", *columns], titles, ["removed", *columns]]
    assert not path.exists()


@needs_root
def test_what_another_user_has_put_among_the_usual_folders_is_no_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "elsewhere").mkdir(0o700)
    (folder / "usual-1").symlink_to(folder / "elsewhere")
    os.lchown(folder / "usual-1", 12345, 12345)
    assert main(["clean"]) == 0
    assert (lines(capsys), (folder / "elsewhere").exists()) == ([], True)


def test_a_folder_that_another_program_has_locked_is_no_monitors(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with kernel.Descriptor(os.open, folder, os.O_RDONLY) as other:
        assert kernel.lock(other.number)
        assert main(["list", str(folder)]) == 0
    assert "no monitor keeps its files" in capsys.readouterr().err


def test_a_folder_that_others_can_change_is_not_touched(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "vm").mkdir()
    (folder / "vm").chmod(0o777)
    assert main(["clean", str(folder / "vm")]) == 1
    assert "can be changed by others" in capsys.readouterr().err
