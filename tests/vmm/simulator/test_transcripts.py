"""What the monitor shows and refuses: it is walked through `states.txt` and `refusals.txt`.

Before that, through the script of the real monitor.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from generated_vmm.testing.description import CURRENT, Operation
from generated_vmm.testing.http import Request
from generated_vmm.testing.machine import Fault
from generated_vmm.testing.operations import find_operation
from generated_vmm.testing.rule import ACTIONS, CHECKS
from tests.vmm.real.walking import SCRIPT, require_case
from tests.vmm.simulator.caller import Caller
from tests.vmm.simulator.conftest import MakeMonitor
from tests.vmm.transcripts import Case, Step, cases_in

STATES, REFUSALS = (cases_in(Path(__file__).with_name(f"{n}.txt")) for n in ("states", "refusals"))
SAVED = Case("snapshot", SCRIPT["boot"] + SCRIPT["snapshot"])
FIRST = [Case(title, SCRIPT[title]) for title in SCRIPT if title not in ("snapshot", "restore")]


@pytest.fixture
def names(kernel: str, disk: str, backend: str, folder: Path) -> Mapping[str, str]:
    (folder / "empty").touch()
    for name, size in {"large": 129 << 20, "file": 1 << 20}.items():
        with (folder / name).open("wb") as file:
            file.truncate(size)
    here = {name: str(folder / name) for name in ("empty", "large", "file")}
    here |= {"kernel": kernel, "initrd": here["file"], "disk": disk, "backend": backend}
    return here | {"folder": str(folder)}


@pytest.mark.parametrize("case", [*FIRST, *STATES], ids=str)
def test_it_is_shown(make_monitor: MakeMonitor, names: Mapping[str, str], case: Case) -> None:
    require_case(make_monitor(enable_pci=case.has_pci).socket_path, case, names)


@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_it_is_refused_and_changes_nothing(
    make_monitor: MakeMonitor, names: Mapping[str, str], case: Case
) -> None:
    monitor = make_monitor(enable_pci=case.has_pci)
    call = Caller(monitor.socket_path)
    require_case(monitor.socket_path, Case("", case.steps[:-1]), names)
    shown = call.get("/vm/config"), call.get("/")
    require_case(monitor.socket_path, Case("", case.steps[-1:]), names)
    assert (call.get("/vm/config"), call.get("/")) == shown


def test_a_second_monitor_restores_what_the_first_saved(
    make_monitor: MakeMonitor, names: Mapping[str, str]
) -> None:
    require_case(make_monitor("first.socket").socket_path, SAVED, names)
    restore = Case("restore", SCRIPT["restore"])
    require_case(make_monitor("second.socket").socket_path, restore, names)


def test_every_operation_is_in_the_script_but_the_one_that_needs_a_tap_device() -> None:
    called = {_operation(step) for steps in SCRIPT.values() for step in steps}
    missing = (ACTIONS.keys() | CHECKS.keys()) - {one.endpoint for one in called if one}
    assert missing == {"PUT /network-interfaces/{iface_id}"}


def _operation(step: Step) -> Operation | None:
    body = None if step.body is None else b"{}"
    try:
        return find_operation(CURRENT, Request(step.method, step.path, body))[0]
    except Fault:
        return None
