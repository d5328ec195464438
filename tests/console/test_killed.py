"""kill -9 of the console at moments of a change: all is whole, and told."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from examples.console.hosted import HostedMonitor
from examples.console.records import Search
from generated_vmm.machines import End
from tests.console.killing import RESTORE, TEXTS, host_in, kill_keepers_of, prepare
from tests.forked import Forked

STEP = 6
"""Of so many moments one is tried; the layer's own tests have all of them."""
MOST = 120


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


def kill_at_moments(folder: Path, change: str, *, real: str = "") -> None:
    step = 2 if change == "delete" else STEP  # which has few
    for moment in range(0, MOST, step):
        done = run(folder, change, str(moment), real=real)
        found = looked(folder, real=real)
        where = f"{change} killed at {moment}: {done.stderr[-500:]} {found}"
        is_killed = "killed" in done.stdout
        assert done.returncode == (-9 if is_killed else 0), where
        assert found["machines"]["web"] == found["machines"].get("copy", "Running") == "Running", (
            where
        )
        assert (found["operations"], found["pending"]) == ([], []), where
        assert [one for one in found["events"] if one.startswith("Alice Admin: ")], where
        assert ("new" in found["snapshots"]) <= (change == "named_snapshot"), where
        if not is_killed:
            assert moment > step, where
            return
    raise AssertionError(f"{change} has more than {MOST} moments")


@pytest.mark.parametrize("change", [*TEXTS, RESTORE])
def test_a_killed_console_leaves_nothing_half_done(short_path: Path, change: str) -> None:
    kill_at_moments(short_path, change)


async def test_the_end_of_a_monitor_that_is_noted_while_the_console_ends_is_in_the_trail(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = host_in(short_path)
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
    host = host_in(short_path)
    await host.open()
    events = host.records.events(Search(), 20)
    assert [one.what for one in events if one.what.startswith("The monitor")] == [
        "The monitor was lost: nobody saw how it ended."
    ]
    await host.close()


@pytest.mark.parametrize("real", ["FIRECRACKER_BIN", "FIRECRACKER_BIN JAILER_BIN"])
@pytest.mark.parametrize("change", [*TEXTS, RESTORE])
def test_the_same_with_the_real_monitor(short_path: Path, change: str, real: str) -> None:
    needed = all(map(os.environ.get, (*real.split(), "KERNEL")))
    if not needed or not os.access("/dev/kvm", os.W_OK):
        pytest.skip(f"not run: it needs {real} (in jails as root), KERNEL and /dev/kvm")
    kill_at_moments(short_path, change, real=real)
