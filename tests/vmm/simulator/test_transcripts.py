"""What the monitor shows and refuses: it is walked through `states.txt` and `refusals.txt`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.vmm.real.walking import require_case
from tests.vmm.simulator.caller import Caller
from tests.vmm.simulator.conftest import MakeMonitor
from tests.vmm.transcripts import Case, cases_in

STATES, REFUSALS = (cases_in(Path(__file__).with_name(f"{n}.txt")) for n in ("states", "refusals"))


@pytest.fixture
def names(kernel: str, disk: str, backend: str, folder: Path) -> Mapping[str, str]:
    (folder / "empty").touch()
    with (folder / "large").open("wb") as file:
        file.truncate(129 << 20)
    here = {name: str(folder / name) for name in ("empty", "large")}
    return here | {"kernel": kernel, "disk": disk, "backend": backend, "folder": str(folder)}


@pytest.mark.parametrize("case", STATES, ids=str)
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
