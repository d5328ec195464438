"""New machines: created, restored from a snapshot, and cloned."""

from __future__ import annotations

import os
from collections.abc import Collection

from generated_vmm.concurrency._async import in_thread
from generated_vmm.machines._async.control import AsyncControl
from generated_vmm.machines._async.held import AsyncHeld
from generated_vmm.machines._async.memory import load, write_down
from generated_vmm.machines._async.operation import AsyncRun
from generated_vmm.machines.copies import (
    MEMORY,
    STATE,
    Wish,
    copies_of,
    name_of_copy,
    of_its_own,
    with_absolute_files,
)
from generated_vmm.machines.definition import Definition, disks_of, with_files
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
    run: AsyncRun, definition: Definition, known: Collection[str] = ()
) -> Definition:
    """The definition with copies, in the machine's folder, of disks that it writes to.

    The `known` paths stay as they are. Raises ValueError for a disk that it may not use or that is
    no regular file, and OSError.
    """
    await run.step("copies the disks")
    made, paths = with_absolute_files(definition.configuration, known), dict[str, str]()
    for disk in disks_of(made):
        if disk.path not in known and not disk.is_read_only:
            source = run.control.options.require_allowed(disk.path)
            paths[disk.id] = name_of_copy(disk.id)
            await in_thread(copy_file, source, run.held.folder / paths[disk.id])
    made = with_files(made, lambda file: paths.get(file.id, file.path))
    return definition.replace(configuration=made)


def _begun(
    control: AsyncControl, kind: Kind, name: str, definition: Definition, by: str
) -> AsyncRun:
    """The operation that makes a machine; the user of its jail is chosen when it begins."""
    id = new_id()
    made = MachineRecord(id=id, name=name, definition=definition, is_whole=False)
    operation = Operation(kind=kind, machine=id, name=name, by=by, target=id)
    return AsyncRun(control, operation, made=made)


async def create(
    control: AsyncControl, name: str, definition: Definition, by: str, *, copies: bool
) -> AsyncHeld:
    """Makes a machine, which does not run yet."""
    async with _begun(control, "create", name, definition, by) as run:
        if copies:
            made = await copy_disks(run, definition)
        else:
            configuration = with_absolute_files(definition.configuration)
            made = definition.replace(configuration=configuration)
        await run.commit("appears", definition=made, is_whole=True)
    return run.held


async def restore(control: AsyncControl, origin: SnapshotRecord, wish: Wish) -> AsyncHeld:
    """Makes a machine that continues from a snapshot, with copies of its disks."""
    if wish.renew and origin.definition.agent is not None and not origin.is_held:
        raise MachineError(f"the guest did not stand still when {origin.name} was written")
    of_its_own(origin.definition, origin.disks, wish.taps)
    source = control.store.snapshots.path(origin.id)
    async with _begun(control, "restore", wish.name, origin.definition, wish.by) as run:
        await run.step("copies the disks")
        for path in origin.disks.values():
            await in_thread(copy_file, source / path, run.held.folder / path)
        for file in (STATE, MEMORY):
            if run.held.record.uid:  # a link, which every jail that continues from it may read
                os.chmod(source / file, 0o644)
            os.link(source / file, run.held.folder / file)
        await _continue(run, origin, wish)
    return run.held


async def clone(control: AsyncControl, origin: MachineRecord, wish: Wish) -> AsyncHeld:
    """Makes a machine that continues from the present state of another one."""
    of_its_own(origin.definition, copies_of(origin.definition), wish.taps)  # before it is paused
    new = _begun(control, "clone", wish.name, origin.definition, wish.by)
    operation = origin.begun("clone", wish.by, new.held.id, wish.name)
    async with AsyncRun(control, operation) as run, new:
        written = await write_down(run, new.held.folder, needs_hold=wish.renew)
        await run.step("starts the clone")
        await _continue(new, written, wish)
    return new.held


async def _continue(run: AsyncRun, origin: SnapshotRecord, wish: Wish) -> None:
    """Loads the memory into the new machine, renews its identity, and makes it appear."""
    held, made = run.held, of_its_own(origin.definition, origin.disks, wish.taps)
    await run.step("starts the monitor", definition=made)
    await load(run, origin, wish.taps)
    if wish.renew and made.agent is not None:
        await run.step("gets an identity")
        await held.client.resume()
        async with held.guest() as guest:  # raises if anything has run before
            if (await guest.wait_until_ready(guest.timeout)).isolated:
                await guest.renew_identity(hostname=wish.name, release=True)
    state = "Running" if wish.run else "Paused"
    await run.commit("appears", is_whole=True, should_be=state, started_at=now())
