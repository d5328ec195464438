# Derived from `generated_vmm/machines/_async/starting.py` by `make codegen`. Do not edit.
"""Machines started: as somebody wants, or as their definitions say."""

from __future__ import annotations

from generated_vmm.errors import VmmError
from generated_vmm.machines._sync.control import Control
from generated_vmm.machines._sync.furnish import furnish
from generated_vmm.machines._sync.operation import Run
from generated_vmm.machines.errors import MachineBusy
from generated_vmm.machines.records import now, operation_on
from generated_vmm.machines.restart import is_due, next_try


def start(run: Run, *, boot: bool) -> None:
    """Starts and configures the monitor, unless it runs, and commits to boot its guest."""
    record, monitors = run.record, run.control.monitors
    if not monitors.is_up(record.id):
        run.step("starts the monitor")
        vm = monitors.start(record)
        run.step("configures the monitor")
        furnish(vm, record.definition)
    elif record.should_be != "Not started":
        return
    state = "Running" if boot else "Not started"
    known = {"started_at": now(), "retry_at": None, "agent_error": ""}
    run.commit("boots the guest", should_be=state, **known)


def start_if_due(control: Control, machine: str) -> None:
    """Starts a machine that should run, and reports it; after a failure, it waits longer."""
    record = control.store.machines.get(machine)
    if record is None or control.store.operations.get(machine) or not is_due(record):
        return
    try:
        with Run(control, operation_on(record, "start", "restart policy")) as run:
            if not is_due(run.record):  # somebody has decided otherwise meanwhile
                return
            start(run, boot=True)
        control.tell("started", machine)
    except MachineBusy:
        return
    except (VmmError, OSError, ValueError):
        _delay(control, machine)
        raise


def _delay(control: Control, machine: str) -> None:
    """Stores the moment of the next start, if there should still be one."""
    if control.watch(machine):
        try:
            record = control.store.machines.get(machine)
            if record is not None and is_due(record):
                failures = record.failures + 1
                retry_at = next_try(failures, now())
                control.change(record, failures=failures, retry_at=retry_at)
        finally:
            control.leave(machine)
