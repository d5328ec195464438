"""Machines started: configured by their definitions."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from generated_vmm import AsyncVmmClient
from generated_vmm.concurrency._async import in_thread
from generated_vmm.errors import VmmError
from generated_vmm.machines._async.control import AsyncControl
from generated_vmm.machines._async.held import AsyncHeld
from generated_vmm.machines._async.operation import AsyncRun, carry_out
from generated_vmm.machines.definition import (
    Definition,
)
from generated_vmm.machines.errors import MachineBusy
from generated_vmm.machines.records import Report, now
from generated_vmm.machines.restart import is_due, next_try

RESOURCES: Final = {
    "machine_config": "machine_config",
    "cpu_config": "cpu_config",
    "boot_source": "boot_source",
    "drives": "drive",
    "network_interfaces": "network_interface",
    "pmem": "pmem",
    "vsock": "vsock",
    "entropy": "entropy",
    "balloon": "balloon",
    "memory_hotplug": "hotplug_memory",
    "mmds_config": "mmds.config",
}
"""The members of the client for those of a configuration, in the order that a monitor needs."""


async def furnish(vm: AsyncVmmClient, definition: Definition) -> None:
    """Sends the definition to a monitor that has none, without booting it; raises VmmError."""
    made = definition.configuration
    if made.logger is not None:
        await vm.logger.set(made.logger)
    for member, name in RESOURCES.items():
        value = getattr(made, member)
        if value is None:
            continue
        for one in value if isinstance(value, list) else [value]:
            resource = attrgetter(name)(vm)
            ids = [getattr(one, id) for id in one.ids_in_path]
            await (resource(*ids) if ids else resource).set(one)
    if definition.metadata is not None:
        await vm.mmds.set(definition.metadata)


async def start(run: AsyncRun) -> None:
    """Starts and configures the monitor, unless it runs, and commits to boot its guest."""
    held = run.held
    if held.is_up:
        return
    run.control.advise(held.record.definition)
    await run.step("starts the monitor")
    await in_thread(held.store.tidy_disks, held.record)
    vm = await held.start()
    await run.step("configures the monitor")
    await furnish(vm, held.record.definition)
    known = {"started_at": now(), "retry_at": None, "agent_error": ""}
    await run.commit("boots the guest", should_be="Running", **known)


async def start_if_due(control: AsyncControl, held: AsyncHeld) -> None:
    """Starts a machine that should run, and reports it; after a failure, it waits longer."""
    record = control.store.machines.get(held.id)
    if record is None or record.operation is not None or not is_due(record):
        return
    try:
        async with carry_out(control, record.begun("start", "restart policy")) as run:
            if not is_due(held.record):  # somebody has decided otherwise meanwhile
                return
            await start(run)
        control.tell(Report(what="started", machine=held.id, name=record.name))
    except MachineBusy:
        return
    except (VmmError, OSError, ValueError):
        await _delay(control, held)
        raise


async def _delay(control: AsyncControl, held: AsyncHeld) -> None:
    """Stores the moment of the next start, if there should still be one."""
    if control.watch(held):
        try:
            if is_due(record := held.record):
                failures = record.failures + 1
                await held.change(failures=failures, retry_at=next_try(failures, now()))
        finally:
            await control.leave(held)
