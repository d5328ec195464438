"""The simulated monitor, walked through the script that real monitors are walked through."""

from __future__ import annotations

from pathlib import Path

import pytest

from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.description import CURRENT, Operation
from generated_vmm.testing.http import Request
from generated_vmm.testing.machine import Fault
from generated_vmm.testing.operations import find_operation
from generated_vmm.testing.rule import ACTIONS, CHECKS
from tests.vmm.real.walking import SCRIPT, require_expected, walk
from tests.vmm.transcripts import Step

SCRIPTS = {name: steps for name, steps in SCRIPT.items() if name != "restore"} | {
    "snapshot": SCRIPT["boot"] + SCRIPT["snapshot"]
}


def names(folder: Path, file: Path) -> dict[str, str]:
    return {"file": str(file), "kernel": str(file), "initrd": str(file), "folder": str(folder)}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_answer_is_the_expected_one(name: str, folder: Path, file: Path) -> None:
    steps = SCRIPTS[name]
    with SimulatedMonitor(folder / "m.socket") as monitor:
        replies = walk(monitor.socket_path, steps, names(folder, file))
    for step, reply in zip(steps, replies, strict=True):
        require_expected(step, reply, names(folder, file))


def test_a_second_monitor_restores_what_the_first_saved(folder: Path, file: Path) -> None:
    with SimulatedMonitor(folder / "first.socket") as first:
        walk(first.socket_path, SCRIPTS["snapshot"], names(folder, file))
    with SimulatedMonitor(folder / "second.socket") as second:
        replies = walk(second.socket_path, SCRIPT["restore"], names(folder, file))
    for step, reply in zip(SCRIPT["restore"], replies, strict=True):
        require_expected(step, reply, names(folder, file))


def test_every_operation_is_in_the_script_but_the_one_that_needs_a_tap_device() -> None:
    steps = [step for steps in SCRIPT.values() for step in steps]
    called = {_operation(step) for step in steps}
    missing = (ACTIONS.keys() | CHECKS.keys()) - {one.endpoint for one in called if one}
    assert missing == {"PUT /network-interfaces/{iface_id}"}


def _operation(step: Step) -> Operation | None:
    body = None if step.body is None else b"{}"
    try:
        return find_operation(CURRENT, Request(step.method, step.path, body))[0]
    except Fault:
        return None
