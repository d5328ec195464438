"""Hosts that go away, come back, and come twice: nothing is lost, and nothing runs twice."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from generated_vmm.guest import Guest, GuestAgentError, ProgramLost
from generated_vmm.operation import Operation
from tests.vmm.guest.conftest import Agent, Start


class Cutter:
    """Stands between a host and the agent, and cuts the connections after so many bytes."""

    def __init__(self, path: Path, agent: Path) -> None:
        self.path, self.agent = path, agent
        self.cuts: list[tuple[str, int]] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(8)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(
                    target=self._serve, args=(self.listener.accept()[0],), daemon=True
                ).start()

    def _serve(self, host: socket.socket) -> None:
        way, size = self.cuts.pop(0) if self.cuts else ("", 0)
        with host, socket.socket(socket.AF_UNIX) as agent:
            agent.connect(str(self.agent))
            back = threading.Thread(target=self._pass, args=(agent, host, way == "back", size))
            back.start()
            self._pass(host, agent, way == "there", size)
            back.join()

    def _pass(self, source: socket.socket, target: socket.socket, cut: bool, size: int) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(min(65536, size) if cut else 65536):
                target.sendall(data)
                size -= len(data)
                if cut and size <= 0:
                    break
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def cutter(running: Agent, tmp_path: Path) -> Iterator[Cutter]:
    made = Cutter(tmp_path / "cut.socket", running.socket_path)
    yield made
    made.listener.shutdown(socket.SHUT_RDWR)
    made.listener.close()


def test_a_host_waits_for_an_agent_that_comes_later(tmp_path: Path, connect: Start) -> None:
    path, started = tmp_path / "agent.socket", list[Agent]()
    guest = connect(path, port=None)
    later = threading.Timer(0.2, lambda: started.append(Agent(path)))
    later.start()
    assert guest.wait_until_ready(60).version == 1
    later.join()
    started[0].stop()


@pytest.mark.parametrize("way", ["there", "back"])
@pytest.mark.parametrize("size", [1, 60, 150, 250, 330, 500, 900])
def test_a_cut_connection_loses_nothing_and_starts_nothing_twice(
    cutter: Cutter, connect: Start, tmp_path: Path, way: str, size: int
) -> None:
    guest = connect(cutter.path, port=None)
    guest.run(["true"])
    cutter.cuts = [(way, size), (way, 2 * size), ("back", size)]
    script = f"echo started >>{tmp_path}/starts; cat; echo end"
    data = os.urandom(2000)
    done = guest.run(["sh", "-c", script], input=data)
    assert done.stdout == data + b"end\n"
    assert (tmp_path / "starts").read_text() == "started\n"
    assert len(cutter.cuts) < 3


def test_an_upload_that_is_cut_off_leaves_no_half_file(
    cutter: Cutter, connect: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    guest = connect(cutter.path, port=None)
    cutter.cuts = [("there", 500_000)]
    with pytest.raises(GuestAgentError):
        guest.path(folder / "file").write_bytes(b"x" * 1_000_000)
    guest.path(folder / "other").write_bytes(b"x")
    for _ in range(1000):  # the agent sees the end of the connection, and removes its part
        if len(list(folder.iterdir())) == 1:
            break
        threading.Event().wait(0.01)
    assert [path.name for path in folder.iterdir()] == ["other"]


def test_a_download_that_is_cut_off_is_an_error(
    cutter: Cutter, connect: Start, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1_000_000)
    guest = connect(cutter.path, port=None)
    cutter.cuts = [("back", 500_000)]
    with pytest.raises(GuestAgentError, match="cut off"):
        guest.path(tmp_path / "file").read_bytes()
    assert len(guest.path(tmp_path / "file").read_bytes()) == 1_000_000


def test_the_same_id_is_one_program_for_every_host(
    guest: Guest, sync_guest: Guest, tmp_path: Path
) -> None:
    args = ["sh", "-c", f"echo started >>{tmp_path}/starts; read line; echo $line"]
    first = guest.start(args, id="job-7", stdin=True)
    second = sync_guest.start(args, id="job-7", stdin=True)
    assert first.state.pid == second.state.pid
    second.write(b"from the second\n")
    assert [each.data for each in first.output()] == [b"from the second\n"]
    assert [each.data for each in second.output()] == [b"from the second\n"]
    assert (tmp_path / "starts").read_text() == "started\n"
    with pytest.raises(GuestAgentError, match="job-7 is the id of another program"):
        guest.start(["true"], id="job-7")


def test_a_host_goes_on_after_the_input_of_another_one(guest: Guest) -> None:
    program = guest.start(["cat"], stdin=True, id="cat")
    first, second = guest.attach("cat"), guest.attach("cat")
    first.write(b"x" * 300_000)
    second.write(b" and more")
    second.close_input()
    assert program.communicate().stdout == b"x" * 300_000 + b" and more"


@pytest.mark.parametrize("act", ["interrupted", "told late"])
def test_input_is_not_lost_after_a_call_that_did_not_end_or_was_told_late(
    sync_guest: Guest, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """The write has arrived when its caller is interrupted, or when a reader's response comes."""
    program, send = sync_guest.start(["cat"], stdin=True), sync_guest._link.send

    def crossed(*given: Any, **options: Any) -> object:
        answer = send(*given, **options)
        if act == "interrupted" and b"data" not in given[0].body:
            return answer
        monkeypatch.undo()
        if act == "interrupted":
            raise KeyboardInterrupt
        program.write(b"first\n")
        return answer

    monkeypatch.setattr(sync_guest._link, "send", crossed)
    if act == "interrupted":
        with pytest.raises(KeyboardInterrupt):
            program.write(b"first\n")
    else:
        program.poll()
    program.write(b"second\n")
    program.close_input()
    assert program.communicate().text == "first\nsecond\n"


def test_readers_that_stopped_hold_nobody_back(
    running: Agent, guest: Guest, sync_guest: Guest
) -> None:
    size = 6_000_000
    program = guest.start(["head", "-c", str(size), "/dev/zero"], id="flood")
    stopped = sync_guest.attach("flood").output()
    read = len(next(stopped).data)
    head = b"Content-Type: application/json\r\nContent-Length: 12\r\n\r\n"
    request = b"PATCH /programs/flood?wait_ms=30000 HTTP/1.1\r\n" + head
    with socket.socket(socket.AF_UNIX) as deaf:  # it asks, and reads no response
        deaf.connect(str(running.socket_path))
        deaf.sendall((request + b'{"offset":0}') * 100)
        assert sum(len(each.data) for each in program.output()) == size
    rest = list(stopped)  # and is told what it has missed
    assert read + sum(each.lost_bytes + len(each.data) for each in rest) == size
    assert sum(each.lost_bytes for each in rest) > size // 2
    assert program.state.returncode == 0


HOST = """
import json, os, sys
from generated_vmm.guest import Guest
guest = Guest(sys.argv[1], port=None)
program = guest.start(["sh", "-c", "for i in $(seq 1000); do echo line $i; done; read x; echo $x"],
                      stdin=True)
output = program.output()
while program.offset < 5000:
    next(output)
print(json.dumps([program.id, program.offset]), flush=True)
os.kill(os.getpid(), 9)
"""


def test_another_process_takes_over_what_a_killed_host_has_started(
    running: Agent, guest: Guest
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOST, str(running.socket_path)], capture_output=True, check=False
    )
    name, offset = json.loads(done.stdout)
    everything = "".join(f"line {i}\n" for i in range(1, 1001)).encode() + b"over\n"
    program = guest.attach(name, offset=offset)
    program.write(b"over\n")
    assert b"".join(each.data for each in program.output()) == everything[offset:]
    assert program.state.returncode == 0
    again = guest.attach(name)  # all of it, as long as the replay has it
    assert again.communicate().stdout == everything


def test_a_restarted_agent_starts_nothing_again(running: Agent, guest: Guest) -> None:
    program = guest.start(["sleep", "60"], id="job")
    running.stop()
    running.start()
    with pytest.raises(ProgramLost, match="no such program"):
        program.poll()
    with pytest.raises(ProgramLost, match="restarted; the program may have run before"):
        guest.start(["sleep", "60"], id="job")
    guest.start(["sleep", "60"], id="job").kill()


def test_a_start_is_for_one_agent_whatever_another_thread_is_told(
    sync_guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = iter(["an agent before"])  # and none once another start was told that it is gone
    instance = property(lambda _: next(known, None), lambda *_: None)
    monkeypatch.setattr(Guest, "_instance", instance, raising=False)
    with pytest.raises(ProgramLost, match="the agent was restarted"):
        sync_guest.start(["true"])


def test_a_host_goes_on_with_a_restarted_agent(running: Agent, guest: Guest) -> None:
    guest.run(["true"])
    running.stop()
    running.start()
    with pytest.raises(ProgramLost, match="the agent was restarted"):
        guest.run(["true"])
    assert guest.run(["true"]).returncode == 0


@pytest.mark.parametrize("moment", ["_sync.program.pieces_of", "_sync.program.Program._exchange"])
def test_a_host_that_is_interrupted_ends_its_program(
    running: Agent, sync_guest: Guest, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    interrupted = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(f"generated_vmm.guest.{moment}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sync_guest.run(["sh", "-c", "echo; sleep 60"])
    (state,) = sync_guest.programs()
    monkeypatch.undo()
    assert sync_guest.attach(state.id).wait(10) == -9


@pytest.mark.parametrize("act", [Guest.run, Guest.start])
def test_a_host_that_is_interrupted_while_it_starts_a_program_ends_it(
    sync_guest: Guest, monkeypatch: pytest.MonkeyPatch, act: Callable[..., object]
) -> None:
    sync_guest._instance = sync_guest.info().instance
    send = sync_guest._link.send

    def interrupted(operation: Operation[object], *args: Any, **options: Any) -> object:
        answer = send(operation, *args, **options)
        if operation.id == "startProgram":
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(sync_guest._link, "send", interrupted)
    with pytest.raises(KeyboardInterrupt):
        act(sync_guest, ["sh", "-c", "echo; sleep 60"])
    (state,) = sync_guest.programs()
    assert sync_guest.attach(state.id).wait(10) == -9


def test_a_start_with_an_id_that_is_interrupted_is_done_by_a_second_call(
    sync_guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync_guest._instance = sync_guest.info().instance
    send = sync_guest._link.send

    def interrupted(*given: Any, **options: Any) -> None:
        send(*given, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sync_guest._link, "send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sync_guest.start(["sleep", "60"], id="mine")
    (state,) = sync_guest.programs()
    program = sync_guest.start(["sleep", "60"], id="mine")
    assert (program.state.pid, program.poll()) == (state.pid, None)
    program.kill()


def test_ended_programs_are_forgotten_in_time(running: Agent, sync_guest: Guest) -> None:
    first = sync_guest.start(["true"])
    first.communicate()
    for _ in range(17):
        sync_guest.run(["head", "-c", "1048576", "/dev/zero"])
    sync_guest.run(["true"])
    with pytest.raises(ProgramLost):
        first.poll()
