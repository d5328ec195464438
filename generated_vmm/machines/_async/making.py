"""New machines: created, restored from a snapshot, and cloned."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from generated_vmm.concurrency._async import in_thread
from generated_vmm.machines._async.furnish import remember
from generated_vmm.machines._async.memory import (
    MEMORY,
    STATE,
    copies_of,
    load,
    name_of_copy,
    of_its_own,
    write_down,
)
from generated_vmm.machines._async.operation import AsyncControl, AsyncRun
from generated_vmm.machines._async.renewal import renew
from generated_vmm.machines.definition import Definition, disks_of, with_absolute_files, with_paths
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.files import copy_file
from generated_vmm.machines.records import (
    Kind,
    MachineRecord,
    Operation,
    SnapshotRecord,
    new_id,
    now,
)


async def copy_disks(
    control: AsyncControl, machine: str, definition: Definition, known: Collection[str]
) -> Definition:
    """The definition with copies, in the machine's folder, of disks that it writes to.

    The `known` paths stay as they are. Raises ValueError for a disk that it may not use or that is
    no ordinary file, and OSError.
    """
    made = with_absolute_files(definition.configuration, known)
    paths: dict[str, str] = {}
    for disk in disks_of(made):
        if disk.path not in known and not disk.is_read_only:
            source = control.options.require_allowed(disk.path)
            paths[disk.id] = name_of_copy(disk.id)
            await in_thread(copy_file, source, control.store.path(machine) / paths[disk.id])
    return definition.replace(configuration=with_paths(made, paths))


def _begun(
    control: AsyncControl, kind: Kind, name: str, definition: Definition, by: str
) -> AsyncRun:
    """The operation that makes a machine; its user is chosen now."""
    machine, jail = new_id(), definition.jail
    uid = jail.uid if jail is not None else 0
    operation = Operation(kind=kind, machine=machine, name=name, by=by, uid=uid, target=machine)
    return AsyncRun(control, operation)


def _record_of(operation: Operation, definition: Definition) -> MachineRecord:
    return MachineRecord(
        id=operation.machine,
        name=operation.name,
        definition=definition,
        uid=operation.uid or 0,
        last_operation=operation.id,
    )


async def create(
    control: AsyncControl, name: str, definition: Definition, by: str, *, copies: bool
) -> str:
    """Makes a machine, which does not run yet, and returns its id."""
    async with _begun(control, "create", name, definition, by) as run:
        machine, made = run.operation.machine, definition.configuration
        if copies:
            await run.step("copies the disks")
            definition = await copy_disks(control, machine, definition, ())
        else:
            definition = definition.replace(configuration=with_absolute_files(made, ()))
        await run.step("appears")
        await in_thread(control.store.write_record, _record_of(run.operation, definition))
        return machine


async def restore(
    control: AsyncControl,
    origin: SnapshotRecord,
    name: str,
    by: str,
    *,
    taps: Mapping[str, str],
    resume: bool,
) -> str:
    """Makes a machine that continues from a snapshot, with copies of its disks."""
    definition = of_its_own(origin.definition, origin.disks, taps)
    source = control.store.snapshot_path(origin.id)
    async with _begun(control, "restore", name, definition, by) as run:
        record = _record_of(run.operation, definition)
        folder = control.store.path(record.id)
        await run.step("copies the disks")
        for path in origin.disks.values():
            await in_thread(copy_file, source / path, folder / path)
        for file in (STATE, MEMORY):
            if record.uid:  # a link, which every jail that continues from it may read
                os.chmod(source / file, 0o644)
            os.link(source / file, folder / file)
        await _continue(control, run, record, origin, taps, resume=resume)
        return record.id


async def clone(
    control: AsyncControl,
    origin: MachineRecord,
    name: str,
    by: str,
    *,
    taps: Mapping[str, str],
    resume: bool,
) -> str:
    """Makes a machine that continues from the present state of another one."""
    new = _begun(control, "clone", name, origin.definition, by)
    operation = Operation(
        kind="clone",
        machine=origin.id,
        name=origin.name,
        by=by,
        target=new.operation.machine,
        target_name=name,
    )
    async with AsyncRun(control, operation) as run, new:
        origin = await remember(control, control.record(origin.id))
        of_its_own(origin.definition, copies_of(origin.definition), taps)  # before it is paused
        folder = control.store.path(new.operation.machine)
        copies = await write_down(control, run, origin, folder)
        definition = of_its_own(origin.definition, copies, taps)
        record = _record_of(new.operation, definition)
        written = SnapshotRecord(
            id=new_id(),
            name=name,
            machine=origin.id,
            machine_name=origin.name,
            definition=origin.definition,
            disks=copies,
        )
        await run.step("starts the clone")
        await _continue(control, new, record, written, taps, resume=resume)
        return record.id


async def _continue(
    control: AsyncControl,
    run: AsyncRun,
    record: MachineRecord,
    origin: SnapshotRecord,
    taps: Mapping[str, str],
    *,
    resume: bool,
) -> None:
    """Loads the memory into the new machine, renews its identity, and makes it appear."""
    await load(control, run, record, origin, taps)
    vm, has_agent = control.monitors.require(record.id, record.name), bool(record.definition.agent)
    if resume or has_agent:
        await run.step("resumes and gets an identity")
        await vm.resume()
        await renew(control.monitors, record)
    if has_agent and not resume:
        await vm.pause()
    await run.step("appears")
    await control.change(record, should_run=True, started_at=now())


async def edit(control: AsyncControl, run: AsyncRun, definition: Definition) -> None:
    """Replaces the definition of a machine that does not run, with copies of new disks."""
    record = control.record(run.operation.machine)
    if (definition.jail is None) != (record.definition.jail is None):
        raise MachineError("a machine cannot move into or out of a jail: make another one")
    await run.step("copies the disks")
    known = [disk.path for disk in disks_of(record.definition.configuration)]
    made = await copy_disks(control, record.id, definition, known)
    await run.step("changes the definition")
    changed = await control.change(record, definition=made, last_operation=run.operation.id)
    await in_thread(control.store.tidy_disks, changed)
