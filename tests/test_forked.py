"""A program that is forked for a test is as one that is executed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.forked import REPOSITORY, Forked

TELLS = """
import os, sys
print(__name__, sys.argv, os.getcwd(), os.environ.get("TOLD"))
print(os.getppid(), os.getsid(0) == os.getpid())
print(input())
sys.exit(3)
"""
FAILS = "import atexit; atexit.register(print, 'the end'); raise ValueError('why')"
WAITS = """
import signal, time
print(signal.getsignal(signal.SIGINT).__name__)
while True:  # a signal right before a long sleep would be noticed after the sleep
    time.sleep(0.05)
"""
IS_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.forked import Forked
Forked([sys.executable, "-m", "timeit", "-h"], stdout=-1).communicate()
print(Path(f"/proc/self/task/{os.getpid()}/children").read_text(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=[Forked, subprocess.Popen])
def kind(request: pytest.FixtureRequest) -> type[subprocess.Popen[str]]:
    chosen: type[subprocess.Popen[str]] = request.param
    return chosen


def begun(kind: type[subprocess.Popen[str]], folder: Path, code: str) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(code)
    return kind(
        [sys.executable, "-u", "-m", "program", "one", "two"],
        cwd=folder,
        env={"TOLD": "so", "PATH": os.defpath},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_it_has_its_arguments_streams_folder_environment_session_and_parent(
    kind: type[subprocess.Popen[str]], tmp_path: Path
) -> None:
    with begun(kind, tmp_path, TELLS) as process:
        told, complaints = process.communicate("typed\n", timeout=60)
    arguments = [str(tmp_path / "program.py"), "one", "two"]
    first = f"__main__ {arguments} {tmp_path} so"
    assert told.splitlines() == [first, f"{os.getpid()} True", "typed"]
    assert (process.returncode, complaints) == (3, "")


def test_an_error_is_a_traceback_and_the_program_ends_in_order(
    kind: type[subprocess.Popen[str]], tmp_path: Path
) -> None:
    with begun(kind, tmp_path, FAILS) as process:
        told, complaints = process.communicate(timeout=60)
    assert (process.returncode, told) == (1, "the end\n")
    assert complaints.endswith("ValueError: why\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_signals_do_what_they_do(
    kind: type[subprocess.Popen[str]], tmp_path: Path, number: signal.Signals
) -> None:
    with begun(kind, tmp_path, WAITS) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "default_int_handler\n"
        os.killpg(process.pid, number)
        process.communicate(timeout=60)
    assert process.returncode == -number


def test_the_fork_server_ends_with_the_process_that_uses_it() -> None:
    """However it ends: by a kill here."""
    ended = subprocess.run(
        [sys.executable, "-c", IS_KILLED], cwd=REPOSITORY, stdout=subprocess.PIPE, timeout=60
    )
    assert ended.returncode == -signal.SIGKILL
    [server] = ended.stdout.split()
    while has_files(int(server)):
        time.sleep(0.01)


def has_files(pid: int) -> bool:
    """What has ended has none, whether anybody has waited for it or not."""
    try:
        return bool(os.listdir(f"/proc/{pid}/fd"))
    except FileNotFoundError:
        return False
