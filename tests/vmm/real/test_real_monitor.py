"""A real monitor is walked through what the simulated one is walked through.

FIRECRACKER_BIN names the program. What starts a guest also needs KERNEL, an uncompressed kernel,
maybe INITRD, and /dev/kvm. Without them a test is reported as not run.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vmm.real.conftest import required
from tests.vmm.real.monitors import wait_until
from tests.vmm.real.walking import SCRIPT, require_case
from tests.vmm.simulator.caller import connect
from tests.vmm.simulator.test_transcripts import FIRST, REFUSALS, SAVED, STATES
from tests.vmm.transcripts import Case

StartProcess = Callable[[str], Path]


# Those that need neither a guest with its drivers nor a tap device or a backend of this host.
WITHOUT_A_GUEST = [
    case
    for case in (*STATES, *REFUSALS)
    if not case.has_pci and not re.search("InstanceStart|host_dev_name|{backend}", str(case.steps))
]

SCRIPTED = [case for case in FIRST if case.title not in ("boot", "failed load")]


@pytest.fixture
def names(folder: Path, file: Path) -> dict[str, str]:
    (folder / "empty").touch()
    names = {"folder": str(folder), "empty": str(folder / "empty")}
    return names | dict.fromkeys(("kernel", "disk", "file"), str(file))


@pytest.mark.parametrize("case", [*WITHOUT_A_GUEST, *SCRIPTED], ids=str)
def test_the_real_one_answers_as_the_simulated_one(
    start_process: StartProcess, names: dict[str, str], case: Case
) -> None:
    require_case(start_process("anonymous-instance"), case, names)


def test_a_failed_load_ends_the_process(start_process: StartProcess, names: dict[str, str]) -> None:
    path = start_process("failed-load")
    require_case(path, Case("failed load", SCRIPT["failed load"]), names)
    wait_until(lambda: not listens(path))
    assert not listens(path)


def listens(path: Path) -> bool:
    try:
        connect(path).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_guest_boots_pauses_and_is_restored_in_a_second_process(
    start_process: StartProcess, names: dict[str, str]
) -> None:
    names["kernel"] = required("KERNEL")
    if "INITRD" in os.environ:
        names["initrd"] = os.environ["INITRD"]
    require_case(start_process("first"), SAVED, names)
    require_case(start_process("second"), Case("restore", SCRIPT["restore"]), names)
