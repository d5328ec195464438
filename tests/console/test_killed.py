"""kill -9 of the console, or of keepers, at moments of a change: all is whole, and told."""

import asyncio
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

from examples.console.hosted import HostedMonitor
from examples.console.records import Search
from generated_vmm.machines import End
from tests.console.killing import ON_VICTIM, RESTORE, TEXTS, host_in, kill_keepers_of, prepare
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


def run(folder: Path, *words: str, real: str) -> subprocess.CompletedProcess[str]:
    """`real` names the programs of the environment that are used: none, one, or both."""
    command = [sys.executable, "-m", "tests.console.killing", str(folder), *words]
    unused = {"FIRECRACKER_BIN", "JAILER_BIN"}.difference(real.split())
    environment = {name: value for name, value in os.environ.items() if name not in unused}
    with Forked[str](command, stdout=PIPE, stderr=PIPE, text=True, env=environment) as console:
        said, complaints = console.communicate()
    return subprocess.CompletedProcess(command, console.returncode, said, complaints)


def looked(folder: Path, *, real: str) -> dict[str, Any]:
    done = run(folder, "look", real=real)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def kill_at_moments(folder: Path, change: str, *keepers: str, real: str = "") -> None:
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


async def test_the_end_of_a_monitor_that_is_noted_while_the_console_ends_is_in_the_trail(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = host_in(folder)
    await host.open()
    await prepare(host, "clone")
    noted, may_note = asyncio.Event(), asyncio.Event()
    note_end = HostedMonitor.note_end

    async def held_up(machine: HostedMonitor, end: End) -> None:
        noted.set()
        await may_note.wait()
        await note_end(machine, end)

    monkeypatch.setattr(HostedMonitor, "note_end", held_up)
    kill_keepers_of(host)
    await noted.wait()
    closing = asyncio.create_task(host.close())
    for _ in range(50):  # it goes as far as it can
        await asyncio.sleep(0)
    may_note.set()
    await closing
    monkeypatch.undo()
    host = host_in(folder)
    await host.open()
    events = host.records.events(Search(), 20)
    assert [one.what for one in events if one.what.startswith("The monitor")] == [
        "The monitor was lost: nobody saw how it ended."
    ]
    await host.close()


@pytest.mark.parametrize("real", ["FIRECRACKER_BIN", "FIRECRACKER_BIN JAILER_BIN"])
@pytest.mark.parametrize("killed", ["console", "keepers"])
@pytest.mark.parametrize("change", [*TEXTS, RESTORE, *ON_VICTIM])
def test_the_same_with_the_real_monitor(folder: Path, change: str, killed: str, real: str) -> None:
    needed = all(map(os.environ.get, (*real.split(), "KERNEL")))
    if not needed or not os.access("/dev/kvm", os.W_OK):
        pytest.skip(f"not run: it needs {real} (in jails as root), KERNEL and /dev/kvm")
    kill_at_moments(folder, change, *(["keepers"] if killed == "keepers" else []), real=real)
