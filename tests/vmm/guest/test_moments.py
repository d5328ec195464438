"""What happens in the agent in one moment: each test drives the other event into it."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from generated_vmm.guest import Guest, agent
from generated_vmm.guest._generated.models import TerminalSizeFields
from tests.vmm.guest.conftest import Agent
from tests.vmm.guest.test_programs import in_groups

SLEEP = {"args": ["sleep", "60"]}


def open_ends() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def children() -> str:
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


# The start


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (threading.Thread, "start", RuntimeError("can't start new thread")),
        (os, "pidfd_open", OSError(errno.EMFILE, "Too many open files")),
        (os, "openpty", OSError(errno.ENOSPC, "No space left on device")),
    ],
)
def test_a_start_that_fails_leaves_no_process_and_no_descriptor(
    programs: agent.Programs,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    error: Exception,
) -> None:
    ends, processes = open_ends(), children()
    monkeypatch.setattr(owner, name, failing(error))
    with pytest.raises(type(error)):
        programs.start("one", {**SLEEP, "terminal": {"rows": 1, "columns": 1}})
    assert (open_ends(), children()) == (ends, processes)
    assert programs.known == {}


def test_what_is_removed_is_not_what_has_its_name_since(
    programs: agent.Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = programs.start("one", {"args": ["true"]})

    def meanwhile(_: float) -> None:
        del programs.known["one"]
        programs.start("one", SLEEP)

    monkeypatch.setattr(first, "wait", meanwhile)
    programs.remove("one")
    second = programs.get("one")
    second.kill()
    assert second.wait(10)["returncode"] == -9


# The end


def test_a_program_that_ends_in_its_last_moment_is_not_late(
    programs: agent.Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", lambda _: None)
        program = programs.start("one", {"args": ["true"], "timeout_ms": 1})
    os.waitid(os.P_PID, program.child.pid, os.WEXITED | os.WNOWAIT)
    assert program._step(0.0)
    assert not program.timed_out
    program._run()
    assert program.view()["returncode"] == 0


def test_a_program_that_may_not_be_ended_is_followed_to_its_end(
    programs: agent.Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "killpg", failing(PermissionError(errno.EPERM, "not ours")))
    program = programs.start("one", {"args": ["cat"], "stdin": True, "timeout_ms": 1})
    while not program.timed_out:
        program.wait(0.01)
    program.write(0, b"", 1, True)
    assert program.wait(10)["returncode"] == 0


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
def test_a_kill_does_not_move_the_agent(running: Agent, sync_guest: Guest) -> None:
    own = Path(f"/proc/{running.process.pid}/cgroup")
    program = sync_guest.start(["sleep", "60"])
    before = own.read_text()
    program.kill()
    program.wait(10)
    sync_guest.run(["true"])
    assert own.read_text() == before


@pytest.mark.parametrize("wanted", [True, False])
def test_a_group_that_ends_while_it_is_frozen_is_no_error(
    monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    monkeypatch.setattr(agent, "put", failing(OSError(errno.ENODEV, "No such device")))
    agent.freeze("/a/group", wanted)


def test_a_kill_leaves_no_group_whose_last_process_is_not_quite_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "group"
    folder.mkdir()
    busy, rmdir = [OSError(errno.EBUSY, "Device or resource busy")] * 2, os.rmdir
    monkeypatch.setattr(os, "rmdir", lambda path: failing(busy.pop())() if busy else rmdir(path))
    agent.Group(str(folder)).kill()
    assert not folder.exists()


@in_groups
def test_an_agent_does_not_freeze_itself(programs: agent.Programs) -> None:
    program = programs.start("one", SLEEP)
    program.group.path = agent.own_group()  # as after a failure to move elsewhere
    with pytest.raises(OSError, match="cannot leave its control group"):
        programs.hold()
    program.group.path = ""
    program.kill()


# Input and terminals

TERMINAL: TerminalSizeFields = {"rows": 5, "columns": 5}


def test_a_terminal_takes_a_size_while_its_input_is_full(programs: agent.Programs) -> None:
    spec = {"args": ["sh", "-c", "stty raw -echo; echo; sleep 60"], "terminal": TERMINAL}
    program = programs.start("one", spec)
    program.output(0, 10)
    writer = threading.Thread(target=program.write, args=(0, bytes(1_000_000), 60, False))
    writer.start()
    while program.write(0, b"", 0, False)["input_bytes"] == 0:
        pass
    program.resize({"rows": 7, "columns": 7})
    assert writer.is_alive()
    program.kill()
    writer.join()


def test_a_terminal_takes_any_size_after_the_end(programs: agent.Programs) -> None:
    program = programs.start("one", {"args": ["true"], "terminal": TERMINAL})
    program.wait(10)
    while program.ends:  # the last step of its thread
        program.wait(0)
    program.resize({"rows": 7, "columns": 7})


def test_the_end_of_a_terminals_input_is_sent_once(
    programs: agent.Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = programs.start("one", {**SLEEP, "terminal": TERMINAL})
    written: list[bytes] = []
    write = os.write

    def recorded(end: int, data: bytes) -> int:
        written.append(data)
        return write(end, data)

    monkeypatch.setattr(os, "write", recorded)
    for _ in range(2):  # the host has lost the first response
        assert program.write(0, b"one\n", 1, True) == {"input_bytes": 4, "is_open": False}
    assert written == [b"one\n", b"\x04"]
    program.kill()


def test_a_terminals_input_may_end_within_a_line(guest: Guest) -> None:
    done = guest.run(["sh", "-c", "stty -echo; cat; echo"], input=b"a word", terminal=TERMINAL)
    assert done.stdout.endswith(b"a word\r\n")


# Files


def test_nobody_else_reads_a_file_before_it_is_whole(tmp_path: Path) -> None:
    with agent.replacing(os.fsencode(tmp_path / "file"), mode="0644"):
        (temporary,) = tmp_path.iterdir()
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644


@pytest.mark.usefixtures("programs")
def test_nobody_else_reads_a_folder_before_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def unpack(_: agent.Link, folder: bytes) -> None:
        seen.extend(
            stat.S_IMODE(os.stat(path).st_mode) for path in (os.path.dirname(folder), folder)
        )

    monkeypatch.setattr(agent.Link, "_unpack", unpack)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent.Link(theirs).write_folder(f"{tmp_path}/new")
    assert seen == [0o700, 0o755]
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


# Connections


class Exhausted(socket.socket):
    """A listener that fails once, as when no descriptor is left."""

    errors: list[OSError]

    def accept(self) -> tuple[socket.socket, Any]:
        if self.errors:
            raise self.errors.pop()
        return super().accept()


@contextlib.contextmanager
def serving(path: Path, errors: list[OSError]) -> Iterator[None]:
    stopped, stopping = os.pipe()
    with Exhausted(socket.AF_UNIX) as listener:
        listener.errors = errors
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=agent.serve, args=(listener, [stopped]))
        thread.start()
        yield
        os.close(stopping)
        thread.join()
    os.close(stopped)


def test_an_agent_without_descriptors_or_threads_serves_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = [failing(RuntimeError("can't start new thread"))]
    start = agent.Link.start
    monkeypatch.setattr(agent.Link, "start", lambda link: starts.pop()() if starts else start(link))
    errors = [OSError(errno.EMFILE, "Too many open files")]
    with serving(tmp_path / "s", errors), Guest(tmp_path / "s", port=None) as guest:
        assert guest.info().version == agent.VERSION
    assert starts == []


def test_hosts_that_come_all_the_time_do_not_keep_the_agent(tmp_path: Path) -> None:
    stopped, stopping = os.pipe()
    os.close(stopping)
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as host:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        host.connect(str(tmp_path / "s"))
        agent.serve(listener, [stopped])
        assert agent.ready([listener.fileno()], 0)  # the host still waits
    os.close(stopped)


# What it tells


def test_long_arguments_are_told_in_short(guest: Guest) -> None:
    args = ["true", *["x" * 100_000] * 12]
    assert guest.run(args, id="long").args == args
    told = guest.attach("long").args
    assert told == ["true", *["x" * 100] * 9]
    (state,) = guest.programs()
    assert state.args == told


def test_a_file_whose_size_is_wrong_is_read(guest: Guest) -> None:
    path = Path("/sys/class/net/lo/mtu")
    assert path.stat().st_size != len(path.read_bytes())
    assert guest.path(path).read_bytes() == path.read_bytes()
