"""A real monitor beside the simulated one: the same calls, the same answers.

FIRECRACKER_BIN names the program. What starts a guest also needs KERNEL, an uncompressed kernel,
maybe INITRD, and /dev/kvm. Without them a test is reported as not run.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from generated_vmm.testing import SimulatedMonitor
from tests.vmm.real.conftest import required
from tests.vmm.real.monitors import wait_until
from tests.vmm.real.walking import SCRIPT, comparable, require_case, require_expected, walk
from tests.vmm.simulator.caller import Reply, connect
from tests.vmm.simulator.test_transcripts import REFUSALS, STATES
from tests.vmm.transcripts import Case, Step

StartProcess = Callable[[str], Path]


class Pair:
    """A real and a simulated monitor with a folder each."""

    def __init__(self, start_process: StartProcess, folder: Path, file: Path) -> None:
        self._start_process = start_process
        self._folder = folder
        self.names = {"file": str(file)}

    def walk(self, name: str, *scripts: list[Step]) -> None:
        """Walks fresh monitors through the scripts and fails where they differ."""
        steps = [step for steps in scripts for step in steps]
        real = self._replies_of_the_real_one(name, steps)
        simulated = self._replies_of_the_simulated_one(name, steps)
        for step, ours, theirs in zip(steps, simulated, real, strict=True):
            require_expected(step, theirs, self._names("real"))
            assert comparable(ours, self._names("simulated")) == comparable(
                theirs, self._names("real")
            ), step

    def real_socket(self, name: str) -> Path:
        return self._folder / f"{name}.socket"

    def _names(self, which: str) -> dict[str, str]:
        return {**self.names, "folder": str(self._folder / which)}

    def _replies_of_the_real_one(self, name: str, steps: list[Step]) -> list[Reply]:
        (self._folder / "real").mkdir(exist_ok=True)
        return walk(self._start_process(name), steps, self._names("real"))

    def _replies_of_the_simulated_one(self, name: str, steps: list[Step]) -> list[Reply]:
        (self._folder / "simulated").mkdir(exist_ok=True)
        with SimulatedMonitor(self._folder / f"{name}-simulated.socket") as monitor:
            return walk(monitor.socket_path, steps, self._names("simulated"))


@pytest.fixture
def pair(start_process: StartProcess, folder: Path, file: Path) -> Pair:
    return Pair(start_process, folder, file)


@pytest.fixture
def booting(pair: Pair) -> Pair:
    """A pair whose guests can be started."""
    pair.names["kernel"] = required("KERNEL")
    if "INITRD" in os.environ:
        pair.names["initrd"] = os.environ["INITRD"]
    return pair


def test_a_fresh_monitor_reads_the_same(pair: Pair) -> None:
    pair.walk("reading", SCRIPT["reading"])


def test_bad_bodies_are_refused_in_the_same_words(pair: Pair) -> None:
    pair.walk("bodies", SCRIPT["refused bodies"])


def test_configuring_goes_the_same_way(pair: Pair) -> None:
    pair.walk("configuration", SCRIPT["configuration"])


# Those that need neither a guest with its drivers nor a tap device or a backend of this host.
WITHOUT_A_GUEST = [
    case
    for case in (*STATES, *REFUSALS)
    if not case.has_pci and not re.search("InstanceStart|host_dev_name|{backend}", str(case.steps))
]


@pytest.mark.parametrize("case", WITHOUT_A_GUEST, ids=str)
def test_the_real_one_answers_as_the_cases_of_the_simulated_one_say(
    start_process: StartProcess, folder: Path, file: Path, case: Case
) -> None:
    (folder / "empty").touch()
    names = {"folder": str(folder), "empty": str(folder / "empty")}
    names |= dict.fromkeys(("kernel", "disk"), str(file))
    require_case(start_process("anonymous-instance"), case, names)


def test_a_failed_load_ends_the_process(pair: Pair) -> None:
    pair.walk("failed-load", SCRIPT["failed load"])
    wait_until(lambda: not listens(pair.real_socket("failed-load")))
    assert not listens(pair.real_socket("failed-load"))


def listens(path: Path) -> bool:
    try:
        connect(path).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_guest_boots_pauses_and_is_restored_in_a_second_process(booting: Pair) -> None:
    booting.walk("first", SCRIPT["boot"], SCRIPT["snapshot"])
    booting.walk("second", SCRIPT["restore"])
