"""Processes, groups and folders that look like a monitor's, and belong to others."""

import fcntl
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from generated_vmm.process import Monitor, MonitorStartError
from generated_vmm.process.__main__ import look
from tests.vmm.process.conftest import PATIENCE, Do, Make, own_jail
from tests.vmm.process.test_hostile import OTHER, STAND_IN, needs_root


def monitor_below(path: Path) -> Monitor:
    return Monitor(STAND_IN, directory=path / "inner" / "vm", timeout=PATIENCE)


@pytest.mark.parametrize("make", [monitor_below, lambda path: own_jail(path / "inner")])
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
        with pytest.raises(MonitorStartError, match=rf"^{folder}/{name} leads to .* user {OTHER}"):
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


def test_the_wait_for_a_folder_ends_when_the_monitor_is_not_wanted(folder: Path) -> None:
    errors = list[str]()
    other = os.open(folder, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_SH)
    monitor = Monitor(STAND_IN, directory=folder, timeout=PATIENCE)

    def start() -> None:
        try:
            monitor.start()
        except MonitorStartError as error:
            errors.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
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


# A monitor is not started where another one runs or somebody left something


@pytest.mark.parametrize("name", ["log", "api.socket", "keeper.socket"])
def test_what_has_a_name_that_the_monitor_needs_is_left(
    make: Make, do: Do, folder: Path, name: str
) -> None:
    """The caller's own fifo for the log, another monitor's socket, or any file."""
    with socket.socket(socket.AF_UNIX) as listener:
        if name == "log":
            os.mkfifo(folder / name)
        elif name == "api.socket":
            listener.bind(str(folder / name))
            listener.listen()
        else:
            (folder / name).write_text("mine")
        with pytest.raises(MonitorStartError, match=f"has {name}, which no monitor left"):
            do(make(directory=folder).start())
    assert [path.name for path in folder.iterdir()] == [name]


def test_the_socket_does_not_depend_on_the_depth_of_its_folder(
    start: Make, do: Do, folder: Path
) -> None:
    """A path of a unix socket has at most 107 bytes (unix(7)), that of a folder 4095."""
    deep = folder.joinpath(*["a-folder-of-27-characters-x"] * 8)
    deep.parent.mkdir(parents=True)
    monitor = start(directory=deep)
    assert len(str(monitor.socket_path)) > 200
    assert do(monitor.client.get_instance_info()).state == "Not started"
    do(monitor.stop())
    assert list(deep.parent.iterdir()) == []
