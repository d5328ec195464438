"""What happens in the agent in one moment: each test drives the other event into it."""

import _thread
import base64
import errno
import io
import os
import signal
import socket
import stat
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest

from generated_vmm.guest import Guest, agent
from generated_vmm.guest._generated.models import TerminalSizeFields
from tests.vmm.guest.conftest import Agent, Requests
from tests.vmm.guest.test_programs import gone, in_groups

BUSY = OSError(errno.EBUSY, "Device or resource busy")
SLEEP = {"args": ["sleep", "60"]}


def open_ends() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split())


# The start


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (_thread, "start_new_thread", RuntimeError("can't start new thread")),
        (os, "pidfd_open", OSError(errno.EMFILE, "Too many open files")),
        (os, "openpty", OSError(errno.ENOSPC, "No space left on device")),
    ],
)
def test_a_start_that_fails_leaves_no_process_and_no_descriptor(
    programs: Requests,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    error: Exception,
) -> None:
    ends, processes = open_ends(), children()
    monkeypatch.setattr(owner, name, Mock(side_effect=error))
    with pytest.raises(type(error)):
        programs.start("one", {**SLEEP, "terminal": TERMINAL, "timeout_ms": 60_000})
    assert open_ends() <= ends
    assert children() <= processes  # what others have left may end meanwhile
    assert programs.known == {}


# The end


def test_a_program_that_ends_in_its_last_moment_is_not_late(
    programs: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, follow = threading.Event(), agent.Program._follow
    monkeypatch.setattr(agent.Program, "_follow", lambda program: ended.wait() and follow(program))
    program = programs.start("one", {"args": ["true"], "timeout_ms": 0.001})
    os.waitid(os.P_PID, program.child.pid, os.WEXITED | os.WNOWAIT)
    ended.set()
    assert program.exchange({}, 10)["program"] == program.view() | {"returncode": 0}
    assert not program.timed_out


def test_a_time_limit_may_be_longer_than_the_system_waits_at_once(programs: Requests) -> None:
    program = programs.start("one", {"args": ["true"], "timeout_ms": 1 << 31})
    assert program.exchange({}, 10)["program"] == program.view() | {"returncode": 0}


def test_a_terminal_lives_until_its_program_ends(programs: Requests) -> None:
    args = ["sh", "-c", "exec <&- >&- 2>&-; sleep 0.1; echo again >/dev/tty"]
    program = programs.start("one", {"args": args, "terminal": TERMINAL})
    program.exchange({}, 10)
    assert [data for _, _, data in program.frames] == [b"again\r\n"]


HOPPER = """
import os
while os.write(1, b'x'):
    if os.fork():
        os._exit(0)
    os.setsid()
"""


@in_groups
def test_a_kill_ends_what_is_a_new_process_each_moment(guest: Guest, tmp_path: Path) -> None:
    written = tmp_path / "written"
    script = f'exec python3 -S -c "$0" >>{written}'
    program = guest.start(["sh", "-c", script, HOPPER])
    program.wait(10)
    program.kill()
    size = written.stat().st_size
    for _ in range(50):
        guest.info()
    assert written.stat().st_size == size


@in_groups
def test_the_agent_stays_in_its_group(running: Agent, sync_guest: Guest) -> None:
    own = Path(f"/proc/{running.process.pid}/cgroup")
    before = own.read_text()
    program = sync_guest.start(["sleep", "60"])
    assert Path(f"/proc/{program.state.pid}/cgroup").read_text() != before
    assert own.read_text() == before
    program.kill()


def group_of(pid: int) -> Path:
    return Path(agent.own_group(), Path(f"/proc/{pid}/cgroup").read_text().rpartition("/")[2][:-1])


@in_groups
def test_a_group_is_removed_when_nobody_is_in_it(running: Agent, sync_guest: Guest) -> None:
    first = sync_guest.start(["sh", "-c", "read x"], stdin=True)
    group = group_of(first.state.pid)
    first.close_input()
    first.wait(10)
    assert not group.exists()
    first.kill()
    second = sync_guest.start(["sh", "-c", "setsid sleep 60 & read x"], stdin=True)
    group = group_of(second.state.pid)
    second.close_input()
    second.wait(10)
    assert group.exists(), "a daemon is in it"
    running.stop()
    assert gone([second.state.pid])
    assert not list(group.parent.glob(f"{group.name[:15]}*"))


def test_a_thread_that_could_not_leave_a_group_does_not_enter_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a kill would end the agent."""
    monkeypatch.setattr(agent, "HOME", str(tmp_path / "as without a descriptor"))
    (tmp_path / "cgroup.threads").touch()
    with pytest.raises(OSError, match="No such file"), agent.entered(str(tmp_path)):
        pass
    assert (tmp_path / "cgroup.threads").read_text() == ""


@pytest.mark.parametrize("wanted", [True, False])
def test_a_group_that_ends_while_it_is_frozen_is_no_error(
    monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    monkeypatch.setattr(agent, "put", Mock(side_effect=OSError(errno.ENODEV, "No such device")))
    agent.freeze("/a/group", wanted)


def test_a_kill_leaves_no_group_whose_last_process_is_not_quite_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "group"
    folder.mkdir()
    rmdir = Mock(wraps=os.rmdir, side_effect=[BUSY, BUSY, DEFAULT])
    monkeypatch.setattr(os, "rmdir", rmdir)
    agent.end_group(str(folder))
    assert not folder.exists()


# Input and terminals

TERMINAL: TerminalSizeFields = {"rows": 5, "columns": 5}


def given(position: int, data: bytes, *, close: bool = False) -> dict[str, Any]:
    encoded = base64.urlsafe_b64encode(data).decode()
    return {"input_offset": position, "data": encoded, "close": close}


def test_a_terminal_takes_a_size_while_its_input_is_full(programs: Requests) -> None:
    spec = {"args": ["sh", "-c", "stty raw -echo; echo; sleep 60"], "terminal": TERMINAL}
    program = programs.start("one", spec)
    program.exchange({"offset": 0}, 10)
    taken = -1
    while taken < program.input_bytes:
        taken = program.input_bytes
        program.exchange(given(taken, bytes(100_000)), 0.1)
    asked = threading.Thread(target=program.exchange, args=(given(taken, b"x"), 60))
    asked.start()
    program.resize({"rows": 7, "columns": 7})
    assert program.input_bytes == taken
    program.signal(signal.SIGKILL)
    asked.join()


def test_the_input_of_a_host_that_has_gone_is_not_taken(programs: Requests) -> None:
    """It waited for room; what the host writes next may be there already."""
    program = programs.start("one", {"args": ["cat"], "stdin": True})
    host, guest = socket.socketpair()
    with guest:
        host.close()
        program.exchange(given(0, b"old"), 0, guest)
    program.exchange(given(0, b"new", close=True), 10)
    program.exchange({}, 10)
    assert [data for _, _, data in program.frames] == [b"new"]


def test_the_end_of_a_terminals_input_is_sent_once(programs: Requests) -> None:
    program = programs.start("one", {"args": ["cat"], "terminal": TERMINAL})
    for _ in range(2):  # the host has lost the first response
        state: Any = program.exchange(given(0, b"one\n", close=True), 1)["program"]
        assert (state["input_bytes"], state["takes_input"]) == (4, False)
    program.exchange({}, 10)
    assert b"".join(data for _, _, data in program.frames) == b"one\r\none\r\n"
    assert program.returncode == 0
    program.resize({"rows": 7, "columns": 7})  # nothing happens after the end


def test_a_terminals_input_may_end_within_a_line(guest: Guest) -> None:
    program = guest.start(["sh", "-c", "stty -echo; cat; echo"], terminal=TERMINAL)
    program.write(b"a word")
    program.close_input()
    assert program.communicate().stdout.endswith(b"a word\r\n")


def test_a_terminal_has_its_output_and_not_its_input(guest: Guest) -> None:
    script = "cat; stty size </dev/tty; test -t 0 || test -t 1 && echo output"
    done = guest.run(["sh", "-c", script], input=b"a file\n", terminal=TERMINAL)
    assert done.text == "a file\r\n5 5\r\noutput\r\n"


# Files


def test_nobody_else_reads_a_file_before_it_is_whole(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        (private,) = tmp_path.iterdir()
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        yield b"x"

    agent.replace_file(os.fsencode(tmp_path / "file"), parts(), mode="0644")
    (file,) = tmp_path.iterdir()
    assert (file.name, stat.S_IMODE(file.stat().st_mode)) == ("file", 0o644)


def test_nobody_else_reads_a_folder_before_it_is_whole(tmp_path: Path, guest: Guest) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("file"))
    whole = archive.getvalue()
    modes: list[int] = []

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            while self.tell() and not modes:  # tar has begun
                paths = [*tmp_path.glob("new/.guest-*"), *tmp_path.glob("new/.guest-*/new")]
                modes.extend(stat.S_IMODE(path.stat().st_mode) for path in paths[1:] and paths)
            return super().read(512 if not self.tell() else size)

    (tmp_path / "new").mkdir()
    guest.path(tmp_path / "new" / "folder").write_tar_from(Watched(whole))
    assert modes == [0o700, 0o755]
    assert os.listdir(tmp_path / "new") == ["folder"]


# Connections


class Exhausted(socket.socket):
    """A listener that fails once, as when no descriptor is left."""

    errors: list[OSError]

    def accept(self) -> tuple[socket.socket, Any]:
        if self.errors:
            raise self.errors.pop()
        return super().accept()


def test_an_agent_without_descriptors_or_threads_serves_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = RuntimeError("can't start new thread")
    start = Mock(wraps=_thread.start_new_thread, side_effect=[fault, DEFAULT])
    monkeypatch.setattr(_thread, "start_new_thread", start)
    with Exhausted(socket.AF_UNIX) as listener:
        listener.errors = [OSError(errno.EMFILE, "Too many open files")]
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        hosts = [threading.Thread(target=agent.accept, args=(listener,)) for _ in range(3)]
        for host in hosts:
            host.start()
        with Guest(tmp_path / "s", port=None) as guest:
            assert guest.info().version == agent.VERSION
        for host in hosts:
            host.join()


# What it tells


def test_long_arguments_are_told_in_short(guest: Guest) -> None:
    args = ["true", *["x" * 100_000] * 12]
    program = guest.start(args, id="long")
    assert program.communicate().args == args
    told = guest.attach("long").args
    assert told == ["true", *["x" * 100] * 9]
    (state,) = guest.programs()
    assert state.args == told
