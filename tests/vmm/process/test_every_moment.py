"""Whatever happens to a caller at whatever moment, nothing is left. The kernel says what is.

A moment is before one system call of what runs a monitor. The normal suite takes every 41st with a
stand-in program; with FIRECRACKER_BIN every fifth, with the real monitor and, for root with
JAILER_BIN, the real jailer. MOMENTS_STEP=1 takes all.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from generated_vmm.process.folders import known_folders

from generated_vmm.process import Monitor, MonitorError
from tests.vmm.process.conftest import PATIENCE
from tests.vmm.process.events import ANOTHER_VSOCK, EVENTS, SWAPPED
from tests.vmm.process.kernel import control_groups, processes

IS_REAL = bool(os.environ.get("FIRECRACKER_BIN"))
STEP = int(os.environ.get("MOMENTS_STEP", "5" if IS_REAL else "41"))
UNJAILED = ["start and stop", "start and kill", "crash", "detach and attach", "fill a jail"]
JAILED = ["jail", "jail with control groups", "jail with a PID namespace"]

HAPPENING = [event for event in EVENTS if event != "nothing"]
# In a folder of its own user, an unjailed monitor may leave what it likes.
IN_JAILS = {ANOTHER_VSOCK}
# The caller may end at these.
DEADLY = [event for event in EVENTS if event.startswith("the caller")]
# Nothing else changes when these happen.
UNNOTICED = [event for event in EVENTS if event.startswith("the reaper") or "forks" in event]
PRECIOUS = "a file of the host"

Play = Callable[[str, str, int], Any]


@pytest.fixture(scope="module")
def caller() -> Iterator[subprocess.Popen[str]]:
    program = [sys.executable, "-W", "ignore", "-m", "tests.vmm.process.moments"]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as caller:
        yield caller
        assert caller.stdin is not None
        caller.stdin.close()


@pytest.fixture
def play(caller: subprocess.Popen[str], folder: Path) -> Play:
    def play(scenario: str, event: str, moment: int) -> Any:
        case = {"scenario": scenario, "event": event, "moment": moment, "folder": str(folder)}
        assert caller.stdin is not None
        assert caller.stdout is not None
        (folder / "linked").write_text(PRECIOUS)
        caller.stdin.write(json.dumps(case) + "\n")
        caller.stdin.flush()
        result = json.loads(caller.stdout.readline())
        assert (folder / "linked").read_text() == PRECIOUS
        assert (folder / "linked").stat().st_uid == os.geteuid()
        (folder / "linked").unlink()
        return result

    return play


@pytest.mark.parametrize("event", [event for event in HAPPENING if event not in IN_JAILS])
@pytest.mark.parametrize("scenario", UNJAILED)
def test_nothing_is_left(play: Play, folder: Path, scenario: str, event: str) -> None:
    require_nothing_left(play, folder, scenario, event)


@pytest.mark.skipif(
    not (IS_REAL and os.environ.get("JAILER_BIN") and os.geteuid() == 0),
    reason="not run: a jail needs root, JAILER_BIN and FIRECRACKER_BIN",
)
@pytest.mark.parametrize("event", HAPPENING)
@pytest.mark.parametrize("scenario", JAILED)
def test_nothing_is_left_of_a_jail(play: Play, folder: Path, scenario: str, event: str) -> None:
    require_nothing_left(play, folder, scenario, event)


def require_nothing_left(play: Play, folder: Path, scenario: str, event: str) -> None:
    found: dict[int, list[str]] = {}
    for moment in count(HAPPENING.index(event) * 7 % STEP, STEP):
        result = play(scenario, event, moment)
        if scenario == "detach and attach":
            end_detached(folder)
        if event == SWAPPED:
            remove_links(folder)
        if left := leftovers(folder) + faults(result, scenario, event):
            found[moment] = left
            break
        if result is not None and result["calls"] <= moment:
            assert moment > 0
            break
    assert found == {}


def faults(result: Any, scenario: str, event: str) -> list[str]:
    """What a caller that survived should not have seen."""
    if result is None:
        return [] if event in DEADLY else ["the caller ended"]
    found: list[str] = result["descriptors"]
    if event in UNNOTICED and result["error"]:
        found.append(result["error"])
    rival = result.get("rival", "")
    if rival and "MonitorStartError" not in rival and "not told" not in rival:
        found.append(rival)
    if rival and result["error"] and scenario != "detach and attach":
        found.append(f"neither started: {result['error']}, {rival}")
    return found


def test_a_scenario_succeeds_when_nothing_happens(play: Play, folder: Path) -> None:
    for scenario in UNJAILED:
        result = play(scenario, "nothing", 0)
        assert result["error"] == ""
        assert result["calls"] > 20
        assert leftovers(folder) == []


def end_detached(folder: Path) -> None:
    """Ends a monitor that is to survive its caller."""
    with contextlib.suppress(MonitorError):
        Monitor.attach(folder / "vm").kill()


def remove_links(folder: Path) -> None:
    """Removes what an unjailed monitor, which is its owner's user, put in place of its files."""
    for path in (*folder.glob("vm/*"), folder / "v.sock"):
        if path.is_symlink():
            path.unlink()
    with contextlib.suppress(OSError):
        (folder / "vm").rmdir()


def leftovers(folder: Path) -> list[str]:
    """What the kernel knows of the caller's monitors, once it has had time to forget them."""
    deadline = time.monotonic() + PATIENCE
    while (found := seen(folder)) and time.monotonic() < deadline:
        time.sleep(0.002)
    return found


def seen(folder: Path) -> list[str]:
    """Processes, files, sockets, control groups and registry entries."""
    sockets = Path("/proc/net/unix").read_text().splitlines()
    return [
        *(f"process {pid}" for pid, _ in processes(folder)),
        *map(str, folder.iterdir()),
        *(line for line in sockets if f"{folder}/" in line),
        *control_groups(folder),
        *(entry for entry, path in known_folders() if path.startswith(str(folder))),
    ]
