"""A process that is started, held, ended and started again."""

import signal
import sys
import time
from pathlib import Path

import pytest

from examples.fleet.part import StartError
from examples.fleet.program import Program

WITH_CHILD = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path("new").write_text(str(child.pid))
pathlib.Path("new").rename("child")
time.sleep(600)
"""


def child_of(folder: Path) -> int:
    while not (folder / "child").exists():
        time.sleep(0.01)
    return int((folder / "child").read_text())


def is_running(pid: int) -> bool:
    """Not one that has ended and that its new parent has not waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_what_it_started_ends_with_it_however_it_ends(tmp_path: Path) -> None:
    program = Program("one", [sys.executable, "-c", WITH_CHILD], tmp_path, is_ready=lambda: True)
    for end in (program.kill, program.stop, lambda: program.send(signal.SIGKILL)):
        (tmp_path / "child").unlink(missing_ok=True)
        program.start()
        child = child_of(tmp_path)
        end()
        while program.pid is not None:
            time.sleep(0.01)
        while is_running(child):
            time.sleep(0.01)


def test_one_that_ends_at_once_says_why(tmp_path: Path) -> None:
    failing = [sys.executable, "-c", "import sys; sys.exit('no such thing')"]
    program = Program("one", failing, tmp_path, address=tmp_path / "one.sock")
    with pytest.raises(StartError, match="one did not start: no such thing"):
        program.start()
