"""Machines that are started, created, or made of the memory of another one."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Final

from generated_vmm import AsyncVmmClient
from generated_vmm.concurrency._async import in_thread
from generated_vmm.facade.values import is_root
from generated_vmm.guest import GuestError
from generated_vmm.machines import copies, records
from generated_vmm.machines._async.held import AsyncControl, AsyncHeld
from generated_vmm.machines._async.operation import carry_out, conform, recorded
from generated_vmm.machines.copies import MEMORY, STATE, Wish
from generated_vmm.machines.definition import Definition, disks_of, used_disks, with_files
from generated_vmm.machines.records import MachineError
from generated_vmm.machines.store import NEW, copy_file, link_file, make_folder, take_over
from generated_vmm.misuse import warn_caller
from generated_vmm.process import AsyncJailedMonitor
from generated_vmm.process.mistakes import mistake_of_format

logger = logging.getLogger(__name__)
RESOURCES: Final = {
    "logger": "logger",
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
    for member, name in RESOURCES.items():
        value = getattr(definition.configuration, member)
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                resource = attrgetter(name)(vm)
                ids = [getattr(one, id) for id in one.ids_in_path]
                await (resource(*ids) if ids else resource).set(one)
    if definition.metadata is not None:
        await vm.mmds.set(definition.metadata)


async def start(held: AsyncHeld) -> None:
    """Starts and configures the monitor, unless it runs, and commits to boot its guest."""
    if held.is_up:
        return held.require("Running", "Ended")
    await held.step("starts the monitor")
    await in_thread(held.store.tidy_disks, held.record)
    vm = await held.start()
    await held.step("configures the monitor")
    await furnish(vm, held.record.definition)
    known = {"boot": records.boot_id(), "retry_at": None, "agent_error": ""}
    await held.commit("boots the guest", should_be="Running", started_at=records.now(), **known)


async def start_again(held: AsyncHeld) -> None:
    """Starts a machine that should run; the next attempt, after a failure, is stored first."""
    operation, failures = held.begun("start", "restart policy"), held.record.failures + 1
    retry_at = records.next_try(failures, records.now())
    async with recorded(held, operation, failures=failures, retry_at=retry_at):
        await start(held)
    report = records.Report(what="started", machine=held.id, name=operation.name)
    held.control.reports.append(report)


async def with_copies(
    held: AsyncHeld, definition: Definition, known: Collection[str] | None
) -> Definition:
    """The definition with copies, in the machine's folder, of disks that it writes to.

    The `known` paths stay as they are, all if it is None. Raises ValueError for a disk that it may
    not use or that is no regular file, and for what `as_stored` refuses; and OSError.
    """
    await held.step("copies the disks")
    given = await in_thread(copies.as_stored, definition.configuration, held.folder, known or ())
    paths: dict[str, str] = {}
    for disk in disks_of(given):
        if disk.path in (known or ()):
            continue
        file, root = held.folder / disk.path, is_root(dict(disk.device))
        if mistake := await in_thread(mistake_of_format, file, is_root=root):
            warn_caller(mistake)
        if known is not None and not disk.is_read_only:
            source = held.options.require_allowed(disk.path)
            paths[disk.id] = copies.name_of_copy(disk.id)
            await in_thread(copy_file, source, held.folder / paths[disk.id])
    made = with_files(given, lambda file: paths.get(file.id, file.path))
    return definition.replace(configuration=made)


async def restore(control: AsyncControl, origin: records.SnapshotRecord, wish: Wish) -> AsyncHeld:
    """Makes a machine that continues from a snapshot, with copies of its disks."""
    if wish.renew and origin.definition.agent is not None and not origin.is_held:
        raise MachineError(f"the guest did not stand still when {origin.name} was written")
    made = copies.of_its_own(origin.definition, wish.taps)
    operation = records.creation("restore", wish.name, wish.by)
    held = AsyncHeld(control, operation.machine)
    async with carry_out(held, operation, made):
        await _continue(held, control.store.snapshots.path(origin.id), origin, wish)
    return held


async def clone(origin: AsyncHeld, wish: Wish) -> AsyncHeld:
    """Makes a machine that continues from the present state of another one."""
    new = records.creation("clone", wish.name, wish.by)
    held = AsyncHeld(origin.control, new.machine)
    operation = origin.begun("clone", wish.by, held.id, wish.name)
    async with carry_out(origin, operation):
        made = copies.of_its_own(origin.record.definition, wish.taps)
        # a part of what has begun, which `close` lets come to its end
        async with held.control.turn(held.id), recorded(held, new, made):
            written = await write_down(origin, operation, needs_hold=wish.renew)
            await origin.step("starts the clone")
            await _continue(held, origin.folder / NEW, written, wish)
    return held


async def _continue(
    held: AsyncHeld, source: Path, origin: records.SnapshotRecord, wish: Wish
) -> None:
    """Loads the memory in a folder into the new machine, which appears with its own identity."""
    await held.step("copies the disks")
    copy = link_file if source.name == NEW else copy_file  # it was written for this machine
    for path in copies.own_disks(origin.definition):
        await in_thread(copy, source / path, held.folder / path)
    for name in (STATE, MEMORY):
        os.link(source / name, held.folder / name)
    await held.step("starts the monitor")
    await _load(held, wish.taps)
    if wish.renew and origin.definition.agent is not None:
        await held.step("gets an identity")
        await held.client.resume()
        async with held.guest() as guest:  # raises if anything has run before
            if (await guest.wait_until_ready(guest.timeout)).isolated:
                await guest.renew_identity(hostname=wish.name, release=True)
    elif wish.renew:
        what = "%s has the machine id, SSH keys and random numbers of %s: it has no agent"
        logger.warning(what, wish.name, origin.machine_name)
    state = "Running" if wish.run else "Paused"
    await held.commit("appears", should_be=state, started_at=records.now())


async def _load(held: AsyncHeld, taps: Mapping[str, str]) -> None:
    """Starts a machine from `state` and `memory` in its folder, paused.

    Raises VmmError, OSError and ValueError.
    """
    record = held.record
    vm = await held.start()
    files = [held.folder / name for name in (STATE, MEMORY)]
    for file in files:
        if record.uid:  # a link, which every jail that continues from it may read
            file.chmod(0o644)
        await held.admit(file.name, writable=False)
    await held.step("loads the memory")
    loading = vm.with_options(timeout=held.options.snapshot_timeout)
    await loading.snapshot.load(copies.to_load(record.definition, taps))
    if record.definition.metadata is not None and record.definition.configuration.mmds_config:
        await vm.mmds.set(record.definition.metadata)
    for file in files:  # the monitor has both open: their blocks are free when it ends
        file.unlink()


async def write_down(
    held: AsyncHeld, operation: records.Operation, *, needs_hold: bool
) -> records.SnapshotRecord:
    """Writes the memory and copies of the disks to the folder NEW of the machine.

    The machine is paused meanwhile, and runs again afterwards if it ran. Raises VmmError, OSError,
    ValueError, and `MachineError` if the monitor has other disks than the definition, or writes to
    one that is not its own.
    """
    held.require("Running", "Paused")
    await _require_defined_disks(held)
    record, disks = held.record, copies.own_disks(held.record.definition)
    folder = await in_thread(make_folder, held.folder / NEW)
    is_held = await _hold(held, record, is_needed=needs_hold)
    if record.should_be == "Running":
        await held.step("pauses the machine")
        await held.client.pause()
    await held.step("writes the memory")
    await _write_memory(held, operation, folder)
    await held.step("copies the disks")
    for path in disks:
        await in_thread(copy_file, held.folder / path, folder / path)
    await held.step("resumes the machine")
    await conform(held)
    for name in (STATE, MEMORY):
        await in_thread(take_over, folder / name)
    return records.SnapshotRecord(
        id=operation.target,
        name=operation.target_name or f"{record.name}-{records.now():%Y%m%d-%H%M%S}",
        machine=record.id,
        machine_name=record.name,
        definition=record.definition,
        is_held=is_held,
    )


async def _require_defined_disks(held: AsyncHeld) -> None:
    """A copy has the disks of the definition; its memory would lead it to those of the monitor."""
    shown, record = await held.client.vm_config.get(), held.record
    if used_disks(shown) != used_disks(record.definition.configuration):
        raise MachineError(
            f"{record.name} runs with other disks than its definition: start it again"
        )


async def _hold(held: AsyncHeld, record: records.MachineRecord, *, is_needed: bool) -> bool:
    """Whether the agent makes everything else stand still, until the machine is resumed.

    So the guest stands still in a copy too, until it has an identity of its own. If that is needed,
    raises `GuestError`, and `MachineError` for a paused machine.
    """
    if record.definition.agent is None:
        return False
    await held.step("holds the guest")
    try:
        if record.should_be == "Paused":
            raise MachineError(f"{record.name} is paused: resume it, so that its agent can hold it")
        async with held.guest() as guest:
            await guest.hold()
    except (GuestError, MachineError, OSError):
        if is_needed:
            raise
        return False
    return True


async def _write_memory(held: AsyncHeld, operation: records.Operation, folder: Path) -> None:
    """In a jail, the monitor writes through links to the new files."""
    monitor, inside = held.monitor, {name: str(folder / name) for name in (STATE, MEMORY)}
    if isinstance(monitor, AsyncJailedMonitor):
        inside = copies.written_in_jail(operation)
        for name, path in inside.items():
            os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            await monitor.link_in(folder / name, path, give=True)
    vm = held.client.with_options(timeout=held.options.snapshot_timeout)
    await vm.snapshot.create(
        snapshot_path=inside[STATE], mem_file_path=inside[MEMORY], snapshot_type="Full"
    )
