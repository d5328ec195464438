# Derived from `generated_vmm/machines/_async/starting.py` by `make codegen`. Do not edit.
"""Machines started: as somebody wants, or as their definitions say."""

from __future__ import annotations

from generated_vmm.errors import VmmError
from generated_vmm.machines._sync.control import Control
from generated_vmm.machines._sync.furnish import furnish
from generated_vmm.machines._sync.held import Held
from generated_vmm.machines._sync.operation import Run
from generated_vmm.machines.errors import MachineBusy
from generated_vmm.machines.records import now
from generated_vmm.machines.restart import is_due, next_try


def start(run: Run, *, boot: bool) -> None:
    """Starts and configures the monitor, unless it runs, and commits to boot its guest."""
    held = run.held
    if not held.is_up:
        run.step("starts the monitor")
        vm = held.start()
        run.step("configures the monitor")
        furnish(vm, held.record.definition)
    elif held.record.should_be != "Not started":
        return
    state = "Running" if boot else "Not started"
    known = {"started_at": now(), "retry_at": None, "agent_error": ""}
    run.commit("boots the guest", should_be=state, **known)


def start_if_due(control: Control, held: Held) -> None:
    """Starts a machine that should run, and reports it; after a failure, it waits longer."""
    record = control.store.machines.get(held.id)
    if record is None or record.operation is not None or not is_due(record):
        return
    try:
        with Run(control, record.begun("start", "restart policy")) as run:
            if not is_due(held.record):  # somebody has decided otherwise meanwhile
                return
            start(run, boot=True)
        control.tell("started", held.id)
    except MachineBusy:
        return
    except (VmmError, OSError, ValueError):
        _delay(control, held)
        raise


def _delay(control: Control, held: Held) -> None:
    """Stores the moment of the next start, if there should still be one."""
    if control.watch(held):
        try:
            if is_due(record := held.record):
                failures = record.failures + 1
                held.change(failures=failures, retry_at=next_try(failures, now()))
        finally:
            control.leave(held)
