"""Whatever happens at whatever moment, nothing is left. The kernel says what is.

A moment is before one system call of the caller, its nursery or its keepers. The normal suite takes
every 193rd with a stand-in program; with FIRECRACKER_BIN every 23rd, with the real monitor and, for
root with JAILER_BIN, the real jailer. MOMENTS_STEP=1 takes all.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from generated_vmm.process import Monitor, MonitorError
from generated_vmm.process.__main__ import look
from tests.vmm.process.conftest import PATIENCE
from tests.vmm.process.events import (
    ALL_KILLED,
    ANOTHER_VSOCK,
    AT_A_LINE,
    EVENTS,
    FORKED,
    NURSERY_FIRST,
    SWAPPED,
)
from tests.vmm.process.kernel import control_groups, processes

IS_REAL = bool(os.environ.get("FIRECRACKER_BIN"))
STEP = int(os.environ.get("MOMENTS_STEP", "23" if IS_REAL else "193"))
UNJAILED = ["start and stop", "start and kill", "crash", "detach and attach", "fill a jail"]
JAILED = ["jail", "jail with control groups", "jail with a PID namespace"]

HAPPENING = [event for event in EVENTS if event != "nothing"]
# In a folder of its own user, an unjailed monitor may leave what it likes.
IN_JAILS = {ANOTHER_VSOCK}
# The caller may end at these.
DEADLY = [event for event in EVENTS if event.startswith("the caller")]
# The keeper notes the socket of a vsock device: one that is killed in that moment leaves it.
LOSING = [event for event in EVENTS if "keeper get" in event and "SIGKILL" in event]
# Nothing else changes when these happen.
UNNOTICED = ["the nursery gets SIGTERM", "the keeper gets SIGTERM", FORKED]
PRECIOUS = "a file of the host"


class Stage:
    """A process that plays cases, and the folders of one test."""

    def __init__(self, caller: subprocess.Popen[str], folder: Path) -> None:
        self.folder, self.calls = folder, 0
        self._caller, self._count = caller, count()
        self._shared = Path(tempfile.mkdtemp(prefix="moments-"))

    def play(self, scenario: str, event: str, number: int) -> Any:
        """Plays a case; the result is what the caller says of it, and what is left."""
        place, linked = self._shared / str(next(self._count)), self.folder / "linked"
        place.mkdir()
        os.mkfifo(place / "rival")
        linked.write_text(PRECIOUS)
        case = {"scenario": scenario, "event": event, "number": number, "folder": str(self.folder)}
        assert self._caller.stdin is not None
        assert self._caller.stdout is not None
        self._caller.stdin.write(json.dumps({**case, "place": str(place)}) + "\n")
        self._caller.stdin.flush()
        result = json.loads(self._caller.stdout.readline())
        assert linked.read_text() == PRECIOUS
        assert linked.stat().st_uid == os.geteuid()
        linked.unlink()
        if scenario == "detach and attach":
            end_detached(self.folder)
        if event == SWAPPED:
            remove_links(self.folder)
        if event in LOSING:
            wait_for_monitors(self.folder)
        if event in (ALL_KILLED, NURSERY_FIRST):
            clean(self.folder)  # a monitor that has not ended yet is left alone
        if event in LOSING:
            (self.folder / "v.sock").unlink(missing_ok=True)
        left = leftovers(self.folder) + faults(result, scenario, event)
        self.calls = (place / "count").stat().st_size
        return left

    def close(self) -> None:
        shutil.rmtree(self._shared, ignore_errors=True)


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
def stage(caller: subprocess.Popen[str], folder: Path) -> Iterator[Stage]:
    made = Stage(caller, folder)
    yield made
    made.close()


@pytest.mark.parametrize("event", [event for event in HAPPENING if event not in IN_JAILS])
@pytest.mark.parametrize("scenario", UNJAILED)
def test_nothing_is_left(stage: Stage, scenario: str, event: str) -> None:
    require_nothing_left(stage, scenario, event)


@pytest.mark.skipif(
    not (IS_REAL and os.environ.get("JAILER_BIN") and os.geteuid() == 0),
    reason="not run: a jail needs root, JAILER_BIN and FIRECRACKER_BIN",
)
@pytest.mark.parametrize("event", HAPPENING)
@pytest.mark.parametrize("scenario", JAILED)
def test_nothing_is_left_of_a_jail(stage: Stage, scenario: str, event: str) -> None:
    require_nothing_left(stage, scenario, event)


def require_nothing_left(stage: Stage, scenario: str, event: str) -> None:
    for number in count(HAPPENING.index(event) * 7 % STEP, STEP):
        assert (number, stage.play(scenario, event, number)) == (number, [])
        if stage.calls <= number:
            assert number > 0
            break


def faults(result: Any, scenario: str, event: str) -> list[str]:
    """What a caller that survived should not have seen."""
    told, rival = result["caller"], result.get("rival", "")
    if told is None:
        return [] if event in DEADLY else ["the caller ended"]
    found: list[str] = told["descriptors"]
    expected = {"", "Interrupted()"} if event == AT_A_LINE else {""}
    if event in (*UNNOTICED, AT_A_LINE) and told["error"] not in expected:
        found.append(told["error"])
    if rival and "MonitorStartError" not in rival and "not told" not in rival:
        found.append(rival)
    if rival and told["error"] and scenario != "detach and attach":
        found.append(f"neither started: {told['error']}, {rival}")
    return found


def test_a_scenario_succeeds_when_nothing_happens(stage: Stage) -> None:
    for scenario in UNJAILED:
        assert stage.play(scenario, "nothing", 0) == []
        assert stage.calls > 50


def end_detached(folder: Path) -> None:
    """Ends a monitor that is to survive its caller."""
    with contextlib.suppress(MonitorError):
        Monitor.attach(folder / "vm").kill()


def wait_for_monitors(folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while list(processes(folder)) and time.monotonic() < deadline:
        time.sleep(0.002)


def clean(folder: Path) -> None:
    """What a person does whose keeper was killed together with its nursery, or after it."""
    for place in (folder / "vm", *folder.glob("jails/*/*")):
        look(str(place), clean=True)


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
    """Processes, files, sockets and control groups. The folders above jails stay."""
    above_jails = {folder / "jails", *folder.glob("jails/*")}
    sockets = Path("/proc/net/unix").read_text().splitlines()
    return [
        *(f"process {pid}" for pid, _ in processes(folder)),
        *map(str, {*folder.iterdir(), *folder.glob("jails/*/*")} - above_jails),
        *(line for line in sockets if f"{folder}/" in line),
        *control_groups(folder),
    ]
