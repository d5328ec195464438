"""A process that is started, held, ended and started again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from examples.fleet.part import StartError, Together
from examples.fleet.program import Program

LISTENS = """
import socket, sys
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    while True:
        listener.accept()[0].close()
"""


def listening(folder: Path, name: str = "one") -> Program:
    address = folder / f"{name}.sock"
    command = [sys.executable, "-c", LISTENS, str(address)]
    return Program(name, command, folder, address=address)


def test_it_is_started_again_after_a_kill_that_left_its_socket_behind(tmp_path: Path) -> None:
    program = listening(tmp_path)
    assert program.state == "not started"
    program.start()
    first = program.pid
    program.kill()
    assert (program.pid, program.state) == (None, "ended by SIGKILL")
    assert (tmp_path / "one.sock").exists()
    program.start()
    assert program.pid not in (None, first)
    program.stop()
    assert program.state == "ended by SIGTERM"


def test_it_can_be_paused_and_is_ended_all_the_same(tmp_path: Path) -> None:
    program = listening(tmp_path)
    program.start()
    program.pause()
    assert program.state == f"pid {program.pid}, paused"
    program.stop()
    assert program.pid is None


def test_one_that_ends_at_once_says_why(tmp_path: Path) -> None:
    failing = [sys.executable, "-c", "import sys; sys.exit('no such thing')"]
    program = Program("one", failing, tmp_path, address=tmp_path / "one.sock")
    with pytest.raises(StartError, match="one did not start: no such thing"):
        program.start()


def test_several_are_restarted_together(tmp_path: Path) -> None:
    programs = [listening(tmp_path, name) for name in ("one", "two")]
    both = Together("both", programs)
    both.actions["start"]()
    before = [program.pid for program in programs]
    both.actions["restart"]()
    after = [program.pid for program in programs]
    both.actions["stop"]()
    assert not set(before) & set(after)
    assert both.state == "one ended by SIGTERM, two ended by SIGTERM"
