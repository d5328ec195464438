"""Machines started: as somebody wants, or as their definitions say."""

from __future__ import annotations

from generated_vmm.errors import VmmError
from generated_vmm.machines._async.control import AsyncControl
from generated_vmm.machines._async.furnish import furnish
from generated_vmm.machines._async.operation import AsyncRun
from generated_vmm.machines.errors import MachineBusy
from generated_vmm.machines.records import now, operation_on
from generated_vmm.machines.restart import is_due, next_try


async def start(run: AsyncRun, *, boot: bool) -> None:
    """Starts and configures the monitor, unless it runs, and commits to boot its guest."""
    record, monitors = run.record, run.control.monitors
    if not monitors.is_up(record.id):
        await run.step("starts the monitor")
        vm = await monitors.start(record)
        await run.step("configures the monitor")
        await furnish(vm, record.definition)
    elif record.should_be != "Not started":
        return
    state = "Running" if boot else "Not started"
    known = {"started_at": now(), "retry_at": None, "agent_error": ""}
    await run.commit("boots the guest", should_be=state, **known)


async def start_if_due(control: AsyncControl, machine: str) -> None:
    """Starts a machine that should run, and reports it; after a failure, it waits longer."""
    record = control.store.machines.get(machine)
    if record is None or control.store.operations.get(machine) or not is_due(record):
        return
    try:
        async with AsyncRun(control, operation_on(record, "start", "restart policy")) as run:
            if not is_due(run.record):  # somebody has decided otherwise meanwhile
                return
            await start(run, boot=True)
        control.tell("started", machine)
    except MachineBusy:
        return
    except (VmmError, OSError, ValueError):
        await _delay(control, machine)
        raise


async def _delay(control: AsyncControl, machine: str) -> None:
    """Stores the moment of the next start, if there should still be one."""
    if control.watch(machine):
        try:
            record = control.store.machines.get(machine)
            if record is not None and is_due(record):
                failures = record.failures + 1
                retry_at = next_try(failures, now())
                await control.change(record, failures=failures, retry_at=retry_at)
        finally:
            await control.leave(machine)
