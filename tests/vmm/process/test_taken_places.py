"""A monitor is not started where another one runs or somebody left something."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from generated_vmm.process import Monitor, MonitorStartError
from tests.vmm.process.conftest import Do, Make


def test_a_socket_path_that_is_served_is_taken(make: Make, start: Make, do: Do) -> None:
    first = start()
    second = make(socket_path=first.socket_path)
    with pytest.raises(MonitorStartError, match="another process listens there"):
        do(second.start())
    assert do(first.client.get_instance_info()).state == "Not started"


@pytest.mark.parametrize("content", ["socket", "file"])
def test_a_path_at_which_something_is_left_is_not_touched(
    make: Make, do: Do, folder: Path, content: str
) -> None:
    path = folder / "a.socket"
    if content == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    else:
        path.write_text("somebody's")
    with pytest.raises(MonitorStartError, match="remove it if it is not needed"):
        do(make(socket_path=path).start())
    assert path.exists()


def test_a_folder_that_cannot_be_made_is_an_error(make: Make, do: Do, folder: Path) -> None:
    with pytest.raises(MonitorStartError, match="No such file"):
        do(make(directory=folder / "missing" / "folder").start())


def test_a_file_in_the_place_of_a_fifo_is_left(make: Make, do: Do, folder: Path) -> None:
    (folder / "log").write_text("mine")
    with pytest.raises(MonitorStartError, match="log cannot be created: File exists"):
        do(make(directory=folder).start())
    assert [path.name for path in folder.iterdir()] == ["log"]


def test_the_socket_does_not_depend_on_the_depth_of_its_folder(
    start: Make, do: Do, folder: Path
) -> None:
    """A path of a unix socket has at most 107 bytes (unix(7)), that of a folder 4095."""
    deep = folder.joinpath(*["a-folder-of-27-characters-x"] * 8)
    deep.parent.mkdir(parents=True)
    for options in ({"directory": deep}, {"socket_path": deep.parent / "a.socket"}):
        monitor = start(**options)
        assert len(str(monitor.socket_path)) > 200
        assert do(monitor.client.get_instance_info()).state == "Not started"
        do(monitor.stop())
    assert list(deep.parent.iterdir()) == []


def test_a_name_that_no_socket_can_have_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="at most 107"):
        Monitor(socket_path=folder / ("a" * 110))
