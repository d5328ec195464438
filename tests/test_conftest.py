"""A test has a limit, however it waits, and what it leaves open is told of its own file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
LEAVES_A_SOCKET = """
import pytest, socket

class Ring:
    pass

@pytest.fixture
def left():
    ring = Ring()
    ring.itself, ring.socket = ring, socket.socket()
    return ring

def test_leaves_a_socket(left):
    pass
"""
COLLECTS = """
import gc

def test_collects():
    gc.collect()
"""


WAITS_AGAIN = """
import pytest, threading

@pytest.mark.timeout(2)
def test_waits_again():
    never = threading.Event()
    try:
        never.wait()
    finally:
        never.wait()

@pytest.fixture
def waits():
    yield
    threading.Event().wait()

@pytest.mark.timeout(2)
def test_fails(waits):
    raise ValueError("why")

def test_comes_next():
    pass
"""
CANNOT_BE_INTERRUPTED = """
import io, pytest, threading

begun = threading.Event()

class Silent(io.RawIOBase):
    def readable(self):
        return True

    def readinto(self, buffer):
        begun.set()
        threading.Event().wait()

@pytest.mark.timeout(2)
def test_cannot_be_interrupted():
    file = io.BufferedReader(Silent())
    threading.Thread(target=file.read, daemon=True).start()
    begun.wait()
    file.close()  # waits for the lock of the reader

def test_comes_next():
    pass
"""


def run_of(folder: Path, *options: str, **files: str) -> str:
    """What pytest prints of these tests, with this conftest."""
    for name, content in files.items():
        (folder / f"{name}.py").write_text(content)
    given = ["-q", "-Werror", "-pno:cacheprovider", "-pno:asyncio", "-ptests.conftest", *options]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *given, *(f"{name}.py" for name in files)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=250,
    )
    return ended.stdout


@pytest.fixture
def short(tmp_path: Path) -> str:
    """An option for a plugin with which a limit is soon over."""
    lines = (
        "import tests.conftest as limits",
        "limits.AGAIN_SECONDS, limits.LAST_SECONDS = 1.0, 5.0",
    )
    (tmp_path / "short.py").write_text("\n".join(lines))
    return "-pshort"


def test_a_test_that_waits_again_after_its_limit_or_its_failure_is_interrupted(
    tmp_path: Path, short: str
) -> None:
    printed = run_of(tmp_path, short, test_it=WAITS_AGAIN)
    assert "FAILED test_it.py::test_waits_again - Failed: Timeout" in printed
    assert "FAILED test_it.py::test_fails - ValueError: why" in printed
    assert "ERROR test_it.py::test_fails - Failed: Timeout" in printed
    assert "2 failed, 1 passed, 1 error" in printed


def test_a_test_that_cannot_be_interrupted_ends_its_process(tmp_path: Path, short: str) -> None:
    printed = run_of(tmp_path, short, "-n1", test_it=CANNOT_BE_INTERRUPTED)
    assert "in test_cannot_be_interrupted" in printed
    assert "crashed while running 'test_it.py::test_cannot_be_interrupted'" in printed
    assert "1 failed, 1 passed" in printed


def test_the_last_test_of_a_file_is_told_what_it_leaves_open(tmp_path: Path) -> None:
    printed = run_of(tmp_path, test_first=LEAVES_A_SOCKET, test_second=COLLECTS)
    assert "ERROR test_first.py::test_leaves_a_socket" in printed
    assert "2 passed, 1 error" in printed
