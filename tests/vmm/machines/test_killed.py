"""A control plane is killed at every moment of an operation; the next one finds a whole state.

With simulated monitors, which start slowly, at every second one.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SIGKILLED = -9
MOST_MOMENTS = 400


class Killer:
    """The program `killing`, for one folder."""

    def __init__(self, folder: Path, *, real: bool, jailed: bool) -> None:
        words = ["real" if real else "simulated", "jailed" if jailed else "free"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.vmm.machines.killing", str(folder), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, call: str, *given: object) -> tuple[int, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([call, given]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["status"], answer["text"]

    def do(self, call: str, *given: object) -> str:
        status, text = self.ask(call, *given)
        assert status == 0, text
        return text

    def close(self) -> None:
        self.do("tear_down")
        self._process.communicate()


@contextmanager
def killer(*, real: bool = False, jailed: bool = False) -> Iterator[Killer]:
    with tempfile.TemporaryDirectory(prefix="vm-") as folder:
        one = Killer(Path(folder), real=real, jailed=jailed)
        try:
            one.do("set_up")
            yield one
        finally:
            one.close()


@pytest.fixture(scope="module")
def simulated() -> Iterator[Killer]:
    with killer() as one:
        yield one


@pytest.fixture(scope="module", params=["free", "jailed"])
def real(request: pytest.FixtureRequest) -> Iterator[Killer]:
    names = ("FIRECRACKER_BIN", "JAILER_BIN", "KERNEL")
    if not all(map(os.environ.get, names)) or os.geteuid() or not os.access("/dev/kvm", os.W_OK):
        pytest.skip("not run: it needs root, FIRECRACKER_BIN, JAILER_BIN, KERNEL and /dev/kvm")
    with killer(real=True, jailed=request.param == "jailed") as one:
        yield one


OPERATIONS = ("clone", "snapshot", "restore", "edit", "stop", "delete")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_killed_control_plane_leaves_nothing_half_done(simulated: Killer, operation: str) -> None:
    step = 1 if operation in ("edit", "stop", "delete") else 2  # which have few
    assert kill_at_every_moment(simulated, operation, step) > 3


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_same_with_the_real_monitor(real: Killer, operation: str) -> None:
    assert kill_at_every_moment(real, operation) > 3


@pytest.mark.parametrize("operation", ["snapshot", "clone"])
def test_killed_keepers_leave_nothing_half_done(simulated: Killer, operation: str) -> None:
    assert kill_keepers(simulated, operation, step=12) > 1


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_same_with_keepers_of_the_real_monitor(real: Killer, operation: str) -> None:
    assert kill_keepers(real, operation) > 3


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_same_with_all_of_them_at_once(real: Killer, operation: str) -> None:
    for moment in range(0, MOST_MOMENTS, 3):
        real.do("prepare", operation)
        status, text = real.ask("kill", operation, moment, "keepers")
        found = json.loads(real.do("look"))
        where = f"{operation}, all killed at moment {moment}: {text} {found}"
        require_nothing_half(found, where)
        require_told(operation, found, where, is_killed=status == SIGKILLED)
        if status != SIGKILLED:
            return
        told = {name for what, _, name in found["reports"] if what in ("lost", "ended")}
        assert "web" in told, where
    raise AssertionError(f"{operation} has more than {MOST_MOMENTS} moments")


def kill_keepers(killer: Killer, operation: str, step: int = 1) -> int:
    """The number of moments at which keepers were killed."""
    for number, moment in enumerate(range(0, MOST_MOMENTS, step)):
        killer.do("prepare", operation)
        told = json.loads(killer.do("kill_keepers", operation, moment))
        found = json.loads(killer.do("look"))
        where = f"{operation}, keepers killed at moment {moment}: {told} {found}"
        require_nothing_half(found, where)
        assert not found["reports"], where  # all was told by the control plane that lives
        if not told["is_over"]:
            assert (told["why"], told["reports"]) == ("", []), where
            return number
        lost = {name for what, name in told["reports"] if what in ("lost", "ended")}
        down = {name for name, state in found["machines"].items() if state == "Ended"}
        stopped = {"victim"} if operation in ("stop", "delete") else set[str]()
        assert lost - stopped == down & {*told["before"], "copy"} - stopped, where
        is_refused = bool(told["why"])
        assert is_done(operation, found) in (None, not is_refused), where
    raise AssertionError(f"{operation} has more than {MOST_MOMENTS} moments")


def kill_at_every_moment(killer: Killer, operation: str, step: int = 1) -> int:
    """The number of moments."""
    told = set[str]()
    for moment in range(0, MOST_MOMENTS, step):
        killer.do("prepare", operation)
        status, text = killer.ask("kill", operation, moment)
        found = json.loads(killer.do("look"))
        where = f"{operation} killed at moment {moment}: {text} {found}"
        require_whole(found, where)
        told |= require_told(operation, found, where, is_killed=status == SIGKILLED)
        if status != SIGKILLED:
            assert status == 0, where
            assert told == {"finished", "undone"} - ONLY.get(operation, set())
            return moment
    raise AssertionError(f"{operation} has more than {MOST_MOMENTS} moments")


ONLY = {"delete": {"undone"}}
"""An operation that is always finished."""


def require_whole(found: dict[str, Any], where: str) -> None:
    assert found["machines"]["web"] == "Running", where
    assert found["machines"].get("copy") in (None, "Running"), where
    require_nothing_half(found, where)


def require_nothing_half(found: dict[str, Any], where: str) -> None:
    assert set(found["machines"].values()) <= {"Running", "Ended"}, where
    assert found["operations"] == found["strays"] == found["left"] == [], where
    assert {size for _, size in found["disks"]} == {65536}, where


def require_told(operation: str, found: dict[str, Any], where: str, *, is_killed: bool) -> set[str]:
    """What was reported of the operation, which agrees with what is there."""
    done = is_done(operation, found)
    reports = {what for what, kind, _ in found["reports"] if kind == operation}
    assert not any(what == "failed" for what, _, _ in found["reports"]), where
    if not is_killed:
        assert not reports, where
        assert done in (True, None), where
    elif done is not None and reports:
        assert ("finished" in reports) == done, where
    return reports


def is_done(operation: str, found: dict[str, Any]) -> bool | None:
    """Whether there is what the operation makes; None if it cannot be seen."""
    return {
        "clone": "copy" in found["machines"],
        "restore": "copy" in found["machines"],
        "snapshot": "new" in found["snapshots"],
        "delete": "victim" not in found["machines"],
        "stop": found["machines"].get("victim") == "Ended",
    }.get(operation)
