"""What a test leaves open is told of its own file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def test_the_last_test_of_a_file_is_told_what_it_leaves_open(tmp_path: Path) -> None:
    (tmp_path / "test_first.py").write_text(LEAVES_A_SOCKET)
    (tmp_path / "test_second.py").write_text(COLLECTS)
    options = ["-q", "-Werror", "-pno:cacheprovider", "-pno:asyncio", "-ptests.conftest"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_first.py", "test_second.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "ERROR test_first.py::test_leaves_a_socket" in ended.stdout
    assert "2 passed, 1 error" in ended.stdout
