"""Files, folders and ports by the real agent, in a folder of this host."""

import contextlib
import errno
import io
import os
import pwd
import resource
import socket
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from generated_vmm.guest import Guest, GuestAgentError, GuestProgramError, agent
from tests.vmm.forking import open_sockets
from tests.vmm.guest.conftest import Agent, Start


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    return made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("size", [0, 1, 5_000_000])
def test_a_file_comes_back_as_it_was_written(guest: Guest, folder: Path, size: int) -> None:
    data, path = os.urandom(size), guest.path(folder / "file")
    path.write_bytes(data)
    assert (folder / "file").read_bytes() == data
    assert path.read_bytes() == data
    assert names(folder) == ["file"]
    assert path.exists()
    assert not any(each.exists() for each in (guest.path(folder / "other"), path / "below"))


async def test_a_sync_call_in_an_event_loop_warns(sync_guest: Guest, folder: Path) -> None:
    path = sync_guest.path(folder / "file")
    for call in (lambda: path.write_bytes(b"x"), path.read_bytes, path.stat):
        with pytest.warns(RuntimeWarning, match="stops the event loop") as caught:
            call()
        assert {warning.filename for warning in caught} == {__file__}


def test_a_new_file_has_a_mode_and_an_old_one_retains_its_own(guest: Guest, folder: Path) -> None:
    path = guest.path(folder) / "file"
    path.write_bytes(b"1")
    assert path.stat().mode == 0o644
    path.write_bytes(b"2", mode=0o4711)
    path.write_bytes(b"3")
    found = path.stat()
    assert (found.mode, found.size, found.kind, found.uid) == (0o4711, 1, "file", os.getuid())
    assert guest.path(folder).stat().kind == "folder"
    assert guest.path("/dev/null").stat().kind == "other"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_file_has_an_owner_and_retains_it(guest: Guest, folder: Path) -> None:
    path = guest.path(folder / "file")
    path.write_bytes(b"1", owner="nobody")
    path.write_bytes(b"2")
    found = (folder / "file").stat()
    nobody = pwd.getpwnam("nobody")
    assert (found.st_uid, found.st_gid) == (nobody.pw_uid, nobody.pw_gid)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a b%2F?#", b"\n", "ü".encode()])
def test_a_name_is_any_bytes(guest: Guest, folder: Path, name: bytes) -> None:
    path = guest.path(os.fsencode(folder)) / name
    path.write_bytes(b"x")
    assert os.listdir(os.fsencode(folder)) == [name]
    assert path.read_bytes() == b"x"
    assert path.stat().size == 1


def test_a_link_leads_to_the_file_that_is_replaced(guest: Guest, folder: Path) -> None:
    (folder / "link").symlink_to("file")
    guest.path(folder / "link").write_bytes(b"x")
    assert (folder / "link").is_symlink()
    assert (folder / "file").read_bytes() == b"x"


@pytest.mark.parametrize("name", ["/proc/version", "/dev/null", "/sys/class/net/lo/mtu"])
def test_a_file_without_a_size_or_with_a_wrong_one_is_read(guest: Guest, name: str) -> None:
    read = Path(name).read_bytes()
    assert Path(name).stat().st_size != len(read) or not read
    assert guest.path(name).read_bytes() == read


def test_the_systems_errors_are_those_of_pathlib(guest: Guest, folder: Path) -> None:
    path = guest.path(folder / "none")
    with pytest.raises(FileNotFoundError, match="in the guest") as caught:
        path.read_bytes()
    assert caught.value.filename == str(folder / "none")
    with pytest.raises(FileNotFoundError, match=r"directory: .*/none/below "):
        (path / "below").write_bytes(b"x" * 3_000_000)
    with pytest.raises(IsADirectoryError):
        guest.path(folder).read_bytes()
    with pytest.raises(IsADirectoryError):
        guest.path(folder).write_bytes(b"x")
    with pytest.raises(OSError, match="Invalid argument"):
        guest.path("/dev/null").write_bytes(b"x")
    os.mkfifo(folder / "pipe")
    with pytest.raises(OSError, match="Invalid argument"):
        guest.path(folder / "pipe").read_bytes()
    (folder / "pipe").unlink()
    with pytest.raises(ValueError, match="not an absolute path"):
        guest.path("relative")
    with pytest.raises(GuestAgentError, match="name not found: 'nobody-here'"):
        path.write_bytes(b"", owner="nobody-here")
    assert names(folder) == []


def test_no_more_is_read_than_the_caller_takes(guest: Guest, folder: Path) -> None:
    (folder / "large").write_bytes(b"x" * 1001)
    before = open_sockets()
    for path in ("/dev/zero", folder / "large"):
        target = io.BytesIO()
        with pytest.raises(GuestProgramError, match="more than 1000 bytes") as refused:
            guest.path(path).read_bytes(1000)
        assert open_sockets() <= before, refused
        with pytest.raises(GuestProgramError, match="more than 1000 bytes"):
            guest.path(path).read_into(target, max_bytes=1000)
        assert target.getvalue() == b""
    with pytest.raises(GuestProgramError, match="more than 1000 bytes"):
        guest.path(folder).read_tar_into(io.BytesIO(), max_bytes=1000)
    assert len(guest.path(folder / "large").read_bytes(1001)) == 1001


@pytest.fixture
def cramped(tmp_path: Path) -> Iterator[Agent]:
    """An agent that can write no file over 100,000 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        started = Agent(tmp_path / "cramped.socket")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    yield started
    started.stop()


def test_what_does_not_fit_leaves_everything_as_it_was(
    cramped: Agent, connect: Start, folder: Path
) -> None:
    guest = connect(cramped.socket_path, port=None)
    (folder / "file").write_bytes(b"old")
    for _ in range(2):  # the connection is usable, or replaced
        with pytest.raises(OSError, match="File too large"):
            guest.path(folder / "file").write_bytes(b"x" * 5_000_000)
    assert (folder / "file").read_bytes() == b"old"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("small", "large"):
            entry = tarfile.TarInfo(name)
            entry.size = 5_000_000 if name == "large" else 5
            tar.addfile(entry, io.BytesIO(b"x" * entry.size))
    archive.seek(0)
    with pytest.raises(OSError, match="in the guest"):
        guest.path(folder / "new").write_tar_from(archive)
    assert names(folder) == ["file"]


def test_a_large_file_has_progress(guest: Guest, folder: Path) -> None:
    seen: list[int] = []
    source = io.BytesIO(b"skipped" + os.urandom(3_000_000))
    source.seek(7)
    path = guest.path(folder / "file")
    path.write_from(source, progress=seen.append)
    assert seen[-1] == 3_000_000
    assert len(seen) > 10
    with pytest.raises(ValueError, match="file is at its end"):
        path.write_from(source)
    seen.clear()
    target = io.BytesIO()
    path.read_into(target, progress=seen.append)
    assert target.getvalue() == source.getvalue()[7:]
    assert seen[-1] == 3_000_000


def test_a_folder_travels_as_tar(guest: Guest, folder: Path) -> None:
    source = folder / "source"
    source.mkdir()
    (source / "run.sh").write_text("echo hello")
    (source / "run.sh").chmod(0o755)
    (source / "link").symlink_to("run.sh")
    (source / os.fsdecode(b"\xff")).write_bytes(b"x")
    archive = io.BytesIO()
    guest.path(source).read_tar_into(archive)
    archive.seek(0)
    copy = guest.path(folder / "copy")
    copy.write_tar_from(archive)
    assert names(folder) == ["copy", "source"]
    assert subprocess.run(["diff", "-r", source, folder / "copy"], check=False).returncode == 0
    assert (folder / "copy" / "run.sh").stat().st_mode & 0o777 == 0o755
    (folder / "copy" / "own").write_text("stays")
    (folder / "copy" / "run.sh").write_text("changed")
    archive.seek(0)
    with pytest.raises(OSError, match="Directory not empty"):
        copy.write_tar_from(archive)
    assert (folder / "copy" / "own").read_text() == "stays"
    assert (folder / "copy" / "run.sh").read_text() == "changed"


def test_an_empty_folder_that_becomes_a_tar_stays_private(guest: Guest, folder: Path) -> None:
    (folder / "private").mkdir(mode=0o700)
    with io.BytesIO() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            itself = tarfile.TarInfo(".")
            itself.type, itself.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(itself)
            tar.addfile(tarfile.TarInfo("file"))
        archive.seek(0)
        guest.path(folder / "private").write_tar_from(archive)
    assert (folder / "private" / "file").exists()
    assert (folder / "private").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_none_is_an_error(guest: Guest, folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        guest.path(folder / "none").read_tar_into(io.BytesIO())
    (folder / "file").write_text("x")
    file = guest.path(folder / "file")
    with pytest.raises(NotADirectoryError):
        file.read_tar_into(io.BytesIO())
    with pytest.raises(OSError, match="tar"):
        guest.path(folder / "new").write_tar_from(io.BytesIO(b"no tar" * 1000))
    assert names(folder) == ["file"]


def test_a_folder_that_is_moved_in_part_is_no_folder(
    tmp_path: Path, connect: Start, folder: Path
) -> None:
    tar = tmp_path / "bin" / "tar"
    tar.parent.mkdir()
    tar.write_text("#!/bin/sh\necho No space left on device >&2\necho the first half\nexit 2\n")
    tar.chmod(0o755)
    started = Agent(tmp_path / "torn.socket", PATH=f"{tar.parent}:{os.environ['PATH']}")
    guest = connect(started.socket_path, port=None)
    with pytest.raises(GuestAgentError, match="cut off"):
        guest.path(folder).read_tar_into(io.BytesIO())
    with pytest.raises(OSError, match="No space left on device"):
        guest.path(folder).write_tar_from(io.BytesIO(b"tar"))
    started.stop()


# Ports


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A port that greets, and then sends everything back."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(b"hello")
                    while data := connection.recv(65536):
                        connection.sendall(data)

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_a_port_is_a_stream(sync_guest: Guest, echo_port: int) -> None:
    with sync_guest.connect(echo_port) as stream:
        assert stream.recv(5, socket.MSG_WAITALL) == b"hello"
        stream.sendall(b"x" * 100_000)
        assert stream.recv(100_000, socket.MSG_WAITALL) == b"x" * 100_000
        stream.shutdown(socket.SHUT_WR)
        assert stream.recv(1) == b""
    assert sync_guest.run(["true"]).returncode == 0


async def test_a_port_is_a_reader_and_a_writer(running: Agent, echo_port: int) -> None:
    from generated_vmm.guest import AsyncGuest

    async with AsyncGuest(running.socket_path, port=None) as guest:
        reader, writer = await guest.connect(echo_port)
        assert await reader.readexactly(5) == b"hello"
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


def test_a_port_without_a_listener_refuses(guest: Guest) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionRefusedError, match="in the guest"):
        guest.connect(port)
    for number in (-1, 0, 65536 + 22):
        with pytest.raises(ValueError, match="is no port"):
            guest.connect(number)


def test_a_port_of_a_guest_without_ipv6_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(address: tuple[str, int]) -> None:
        if address[0] == "::1":
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", connect)
    with socket.socket() as link, pytest.raises(ConnectionRefusedError):
        agent.Request(link).get_ports("9")


def test_files_and_modes_of_the_right_kind(guest: Guest, folder: Path) -> None:
    made = guest.path(folder / "file")
    for mode in (0o600, 0o755, 0o400, 0o620, 0o1777, 0o4711, 0o100644):
        made.write_bytes(b"data", mode=mode)
        assert made.stat().mode == mode & 0o7777
    with tempfile.TemporaryFile() as file, tempfile.SpooledTemporaryFile() as spooled:
        made.read_into(file)
        files: tuple[Any, ...] = file, spooled, io.BytesIO()
        for each in files:
            each.seek(0)
            made.write_from(each)
            made.read_into(each, max_bytes=4)
