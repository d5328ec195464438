"""kill -9 of the console, or of keepers, at moments of a change: all is whole, and told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.console.killing import ON_VICTIM, RESTORE, TEXTS
from tests.console.running import end_processes_of
from tests.forked import Forked

STEP = 6
"""Of so many moments one is tried; the layer's own tests have all of them."""
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
    with Forked[str](command, stdout=PIPE, stderr=PIPE, text=True, env=environment) as console:
        said, complaints = console.communicate()
    return subprocess.CompletedProcess(command, console.returncode, said, complaints)


def looked(folder: Path, *, real: bool) -> dict[str, Any]:
    done = run(folder, "look", real=real)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def kill_at_moments(folder: Path, change: str, *keepers: str, real: bool = False) -> None:
    is_long = keepers and change not in ON_VICTIM
    step = 2 * STEP if is_long else STEP
    for moment in range(0, MOST, step):
        done = run(folder, change, str(moment), *keepers, real=real)
        found = looked(folder, real=real)
        where = f"{change} killed at {moment}: {done.stderr[-500:]} {found}"
        is_killed = "killed" in done.stdout
        assert done.returncode == (-9 if is_killed and not keepers else 0), where
        states = {"Running", "Ended"} if keepers and is_killed else {"Running"}
        assert found["machines"]["web"] in states, where
        assert found["machines"].get("copy", "Running") in states, where
        assert (found["operations"], found["pending"]) == ([], []), where
        told = [one for one in found["events"] if one.startswith("Alice Admin: ")]
        assert told, where
        assert ("new" in found["snapshots"]) <= (change == "named_snapshot"), where
        if keepers and is_killed:
            is_made = {"clone": "copy", RESTORE: "copy", "named_snapshot": "new"}.get(change)
            is_there = is_made in [*found["machines"], *found["snapshots"]]
            is_refused = any("Tried to" in one for one in told)
            assert not is_made or is_there != is_refused, where
            lost = [one for one in found["events"] if "The monitor was lost" in one]
            assert lost or found["machines"]["web"] == "Running", where
        if not is_killed:
            assert moment > step, where
            return
    raise AssertionError(f"{change} has more than {MOST} moments")


@pytest.mark.parametrize("change", [*TEXTS, RESTORE, *ON_VICTIM])
def test_a_killed_console_leaves_nothing_half_done(folder: Path, change: str) -> None:
    kill_at_moments(folder, change)


def test_killed_keepers_leave_nothing_half_done(folder: Path) -> None:
    kill_at_moments(folder, "clone", "keepers")


@pytest.mark.parametrize("killed", ["console", "keepers"])
@pytest.mark.parametrize("change", [*TEXTS, RESTORE, *ON_VICTIM])
def test_the_same_with_the_real_monitor(folder: Path, change: str, killed: str) -> None:
    needed = all(map(os.environ.get, ("FIRECRACKER_BIN", "KERNEL")))
    if not needed or not os.access("/dev/kvm", os.W_OK):
        pytest.skip("not run: it needs FIRECRACKER_BIN, KERNEL and /dev/kvm")
    kill_at_moments(folder, change, *(["keepers"] if killed == "keepers" else []), real=True)
