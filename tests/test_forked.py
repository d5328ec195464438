"""A program that is forked for a test is as one that is executed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.forked import REPOSITORY, Forked

TELLS = """
import atexit, os, signal, sys
handler = signal.getsignal(signal.SIGINT).__name__
print(__name__, sys.argv, os.getcwd(), os.environ.get("TOLD"), handler)
print(os.getppid(), os.getsid(0) == os.getpid())
print(input())
atexit.register(print, "the end")
raise ValueError("why")
"""
IS_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.forked import Forked
Forked([sys.executable, "-m", "timeit", "-h"], stdout=-1).communicate()
print(Path(f"/proc/self/task/{os.getpid()}/children").read_text(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_has_its_arguments_streams_folder_environment_session_and_parent(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TELLS)
    with Forked[str](
        [sys.executable, "-u", "-m", "program", "one", "two"],
        cwd=tmp_path,
        env={"TOLD": "so", "PATH": os.defpath},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        told, complaints = process.communicate("typed\n", timeout=60)
    arguments = [str(tmp_path / "program.py"), "one", "two"]
    first = f"__main__ {arguments} {tmp_path} so default_int_handler"
    assert told.splitlines() == [first, f"{os.getpid()} True", "typed", "the end"]
    assert (process.returncode, complaints.splitlines()[-1]) == (1, "ValueError: why")


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
