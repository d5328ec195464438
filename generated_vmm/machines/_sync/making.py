# Derived from `generated_vmm/machines/_async/making.py` by `make codegen`. Do not edit.
"""New machines: created, restored from a snapshot, and cloned."""

from __future__ import annotations

import os
from collections.abc import Collection

from generated_vmm.concurrency._sync import in_thread
from generated_vmm.machines._sync.control import Control
from generated_vmm.machines._sync.memory import load, write_down
from generated_vmm.machines._sync.operation import Run
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
    operation_on,
)


def copy_disks(run: Run, definition: Definition, known: Collection[str] = ()) -> Definition:
    """The definition with copies, in the machine's folder, of disks that it writes to.

    The `known` paths stay as they are. Raises ValueError for a disk that it may not use or that is
    no regular file, and OSError.
    """
    run.step("copies the disks")
    control, made = run.control, with_absolute_files(definition.configuration, known)
    paths: dict[str, str] = {}
    for disk in disks_of(made):
        if disk.path not in known and not disk.is_read_only:
            source, paths[disk.id] = (
                control.options.require_allowed(disk.path),
                name_of_copy(disk.id),
            )
            target = control.store.machines.path(run.operation.machine) / paths[disk.id]
            in_thread(copy_file, source, target)
    made = with_files(made, lambda file: paths.get(file.id, file.path))
    return definition.replace(configuration=made)


def _begun(control: Control, kind: Kind, name: str, definition: Definition, by: str) -> Run:
    """The operation that makes a machine; its user is chosen when it begins."""
    machine, jail = new_id(), definition.jail
    uid = jail.uid if jail is not None else 0
    operation = Operation(kind=kind, machine=machine, name=name, by=by, uid=uid, target=machine)
    return Run(control, operation)


def create(control: Control, name: str, definition: Definition, by: str, *, copies: bool) -> str:
    """Makes a machine, which does not run yet, and returns its id."""
    with _begun(control, "create", name, definition, by) as run:
        if copies:
            made = copy_disks(run, definition)
        else:
            configuration = with_absolute_files(definition.configuration)
            made = definition.replace(configuration=configuration)
        run.appear(run.of(made))
        return run.operation.machine


def restore(control: Control, origin: SnapshotRecord, wish: Wish) -> str:
    """Makes a machine that continues from a snapshot, with copies of its disks."""
    if wish.renew and origin.definition.agent is not None and not origin.is_held:
        raise MachineError(f"the guest did not stand still when {origin.name} was written")
    of_its_own(origin.definition, origin.disks, wish.taps)
    source = control.store.snapshots.path(origin.id)
    with _begun(control, "restore", wish.name, origin.definition, wish.by) as run:
        folder = control.store.machines.path(run.operation.machine)
        run.step("copies the disks")
        for path in origin.disks.values():
            in_thread(copy_file, source / path, folder / path)
        for file in (STATE, MEMORY):
            if run.operation.uid:  # a link, which every jail that continues from it may read
                os.chmod(source / file, 0o644)
            os.link(source / file, folder / file)
        return _continue(run, origin, wish)


def clone(control: Control, origin: MachineRecord, wish: Wish) -> str:
    """Makes a machine that continues from the present state of another one."""
    of_its_own(origin.definition, copies_of(origin.definition), wish.taps)  # before it is paused
    new = _begun(control, "clone", wish.name, origin.definition, wish.by)
    operation = operation_on(origin, "clone", wish.by, new.operation.machine, wish.name)
    with Run(control, operation) as run, new:
        folder = control.store.machines.path(new.operation.machine)
        written = write_down(run, folder, needs_hold=wish.renew)
        run.step("starts the clone")
        return _continue(new, written, wish)


def _continue(run: Run, origin: SnapshotRecord, wish: Wish) -> str:
    """Loads the memory into the new machine, renews its identity, and makes it appear."""
    monitors = run.control.monitors
    record = run.of(of_its_own(origin.definition, origin.disks, wish.taps))
    load(run, record, origin, wish.taps)
    renews = wish.renew and record.definition.agent is not None
    if renews:
        run.step("gets an identity")
        monitors.client(record).resume()
        with monitors.guest(record) as guest:  # raises if anything has run before
            if (guest.wait_until_ready(guest.timeout)).isolated:
                guest.renew_identity(hostname=record.name, release=True)
    state = "Running" if wish.run else "Paused"
    run.appear(record, should_be=state, started_at=now())
    return record.id
