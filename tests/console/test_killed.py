"""kill -9 of the console at moments of a change: nothing stays paused, and all of it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.killing import TEXTS
from tests.console.running import end_processes_of

STEP = 6
"""Of six moments one is tried; `tests/vmm/machines/test_killed.py` has all of the layer."""
MOST = 120


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="vm-") as name:
        yield Path(name)
        end_processes_of(Path(name))


def run(folder: Path, *words: str, real: bool) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.console.killing", str(folder), *words]
    environment = {**os.environ}
    if not real:
        environment.pop("FIRECRACKER_BIN", None)
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def looked(folder: Path, *, real: bool) -> dict[str, Any]:
    done = run(folder, "look", real=real)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def kill_at_moments(folder: Path, change: str, *, real: bool = False) -> None:
    for moment in range(0, MOST, STEP):
        done = run(folder, change, str(moment), real=real)
        found = looked(folder, real=real)
        where = f"{change} killed at {moment}: {done.stderr[-500:]} {found}"
        assert found["machines"]["web"] == "Running", where
        assert found["machines"].get("copy") in (None, "Running"), where
        assert (found["operations"], found["pending"]) == ([], []), where
        if done.returncode == 0:
            assert moment > STEP, where
            return
        assert done.returncode == -9, where
        told = [one for one in found["events"] if one.startswith("Alice Admin: ")]
        assert told, where
        if change == "clone" and "copy" in found["machines"]:
            assert any("finished" in one or "Cloned" in one for one in found["events"]) or told
        assert ("new" in found["snapshots"]) <= (change == "named_snapshot"), where
    raise AssertionError(f"{change} has more than {MOST} moments")


@pytest.mark.parametrize("change", [*TEXTS, "delete", "edit", "stop"])
def test_a_killed_console_leaves_nothing_half_done(folder: Path, change: str) -> None:
    kill_at_moments(folder, change)


@pytest.mark.parametrize("change", list(TEXTS))
def test_the_same_with_the_real_monitor(folder: Path, change: str) -> None:
    needed = all(map(os.environ.get, ("FIRECRACKER_BIN", "KERNEL")))
    if not needed or not os.access("/dev/kvm", os.W_OK):
        pytest.skip("not run: it needs FIRECRACKER_BIN, KERNEL and /dev/kvm")
    kill_at_moments(folder, change, real=True)
