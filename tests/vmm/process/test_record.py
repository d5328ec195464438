"""The record of a monitor on the disk, and what a host that stopped may leave of it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from generated_vmm.process import Monitor
from generated_vmm.process.__main__ import look
from generated_vmm.process.keeper.kernel import FOLDER, Refused
from generated_vmm.process.keeper.record import Record, Socket, read_record, write_record
from tests.vmm.process.conftest import Do, Make

LOST = pytest.mark.parametrize("content", [b"", bytes(800)], ids=["empty", "zeros"])
"""A file whose name has reached the disk, and whose content has not."""


@pytest.fixture
def place(folder: Path) -> Iterator[int]:
    (folder / "vm").mkdir(mode=0o700)
    descriptor = os.open(folder / "vm", FOLDER)
    yield descriptor
    os.close(descriptor)


def lose_record(folder: Path, content: bytes, *, jailed: bool = False) -> Path:
    """A folder as a keeper makes it, after a power failure."""
    descriptor = os.open(folder / "vm", FOLDER)
    write_record(descriptor, Record(str(folder / "vm"), "vm-1", {}, jailed=jailed))
    os.close(descriptor)
    os.mkfifo(folder / "vm" / "log")
    (folder / "vm" / "monitor.json").write_bytes(content)
    (folder / "vm" / "disk").touch()
    return folder / "vm"


@pytest.mark.parametrize(
    ("sockets", "synced"), [([], 0), ([Socket("/run", [1, 2], "v", [1, 3])], 1)]
)
def test_the_disk_is_waited_for_if_something_outlasts_the_host(
    place: int, monkeypatch: pytest.MonkeyPatch, sockets: list[Socket], synced: int
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    record = Record("/vm", None, {}, jailed=False, sockets=sockets)
    write_record(place, record)
    assert len(calls) == synced
    assert json.dumps(read_record(place, "/vm"), default=vars) == json.dumps(record, default=vars)


@LOST
@pytest.mark.usefixtures("place")
def test_a_monitor_starts_where_the_record_was_lost(
    start: Make, do: Do, folder: Path, content: bytes
) -> None:
    path = lose_record(folder, content)
    monitor: Monitor = start(directory=path)
    assert json.loads((path / "monitor.json").read_bytes())["path"] == str(path)
    do(monitor.stop())
    assert os.listdir(path) == ["disk"]


@LOST
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("jailed", [False, True])
def test_clean_removes_what_a_monitor_has_in_its_folder(
    folder: Path, content: bytes, jailed: bool
) -> None:
    """All that is in the folder belongs to a jail; else the rest is somebody's."""
    path = lose_record(folder, content, jailed=jailed)
    assert look(str(path), clean=True) == ("removed", "", "")
    assert path.exists() is not jailed
    assert jailed or os.listdir(path) == ["disk"]


@pytest.mark.usefixtures("place")
def test_an_empty_file_of_somebody_is_no_lost_record(folder: Path) -> None:
    path = lose_record(folder, b"")
    (path / "monitor.json").chmod(0o644)
    with pytest.raises(Refused, match="cannot be read"):
        look(str(path), clean=True)
    assert len(os.listdir(path)) == 3
