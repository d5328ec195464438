# Derived from `generated_vmm/machines/_async/making.py` by `make codegen`. Do not edit.
"""New machines: created, restored from a snapshot, and cloned."""

from __future__ import annotations

import os
from collections.abc import Collection

from generated_vmm.concurrency._sync import in_thread
from generated_vmm.machines._sync.control import Control
from generated_vmm.machines._sync.held import Held
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
)


def copy_disks(run: Run, definition: Definition, known: Collection[str] = ()) -> Definition:
    """The definition with copies, in the machine's folder, of disks that it writes to.

    The `known` paths stay as they are. Raises ValueError for a disk that it may not use or that is
    no regular file, and OSError.
    """
    run.step("copies the disks")
    made, paths = with_absolute_files(definition.configuration, known), dict[str, str]()
    for disk in disks_of(made):
        if disk.path not in known and not disk.is_read_only:
            source = run.control.options.require_allowed(disk.path)
            paths[disk.id] = name_of_copy(disk.id)
            in_thread(copy_file, source, run.held.folder / paths[disk.id])
    made = with_files(made, lambda file: paths.get(file.id, file.path))
    return definition.replace(configuration=made)


def _begun(control: Control, kind: Kind, name: str, definition: Definition, by: str) -> Run:
    """The operation that makes a machine; the user of its jail is chosen when it begins."""
    id = new_id()
    made = MachineRecord(id=id, name=name, definition=definition, is_whole=False)
    operation = Operation(kind=kind, machine=id, name=name, by=by, target=id)
    return Run(control, operation, made=made)


def create(control: Control, name: str, definition: Definition, by: str, *, copies: bool) -> Held:
    """Makes a machine, which does not run yet."""
    with _begun(control, "create", name, definition, by) as run:
        if copies:
            made = copy_disks(run, definition)
        else:
            configuration = with_absolute_files(definition.configuration)
            made = definition.replace(configuration=configuration)
        run.commit("appears", definition=made, is_whole=True)
    return run.held


def restore(control: Control, origin: SnapshotRecord, wish: Wish) -> Held:
    """Makes a machine that continues from a snapshot, with copies of its disks."""
    if wish.renew and origin.definition.agent is not None and not origin.is_held:
        raise MachineError(f"the guest did not stand still when {origin.name} was written")
    of_its_own(origin.definition, origin.disks, wish.taps)
    source = control.store.snapshots.path(origin.id)
    with _begun(control, "restore", wish.name, origin.definition, wish.by) as run:
        run.step("copies the disks")
        for path in origin.disks.values():
            in_thread(copy_file, source / path, run.held.folder / path)
        for file in (STATE, MEMORY):
            if run.held.record.uid:  # a link, which every jail that continues from it may read
                os.chmod(source / file, 0o644)
            os.link(source / file, run.held.folder / file)
        _continue(run, origin, wish)
    return run.held


def clone(control: Control, origin: MachineRecord, wish: Wish) -> Held:
    """Makes a machine that continues from the present state of another one."""
    of_its_own(origin.definition, copies_of(origin.definition), wish.taps)  # before it is paused
    new = _begun(control, "clone", wish.name, origin.definition, wish.by)
    operation = origin.begun("clone", wish.by, new.held.id, wish.name)
    with Run(control, operation) as run, new:
        written = write_down(run, new.held.folder, needs_hold=wish.renew)
        run.step("starts the clone")
        _continue(new, written, wish)
    return new.held


def _continue(run: Run, origin: SnapshotRecord, wish: Wish) -> None:
    """Loads the memory into the new machine, renews its identity, and makes it appear."""
    held, made = run.held, of_its_own(origin.definition, origin.disks, wish.taps)
    run.step("starts the monitor", definition=made)
    load(run, origin, wish.taps)
    if wish.renew and made.agent is not None:
        run.step("gets an identity")
        held.client.resume()
        with held.guest() as guest:  # raises if anything has run before
            if (guest.wait_until_ready(guest.timeout)).isolated:
                guest.renew_identity(hostname=wish.name, release=True)
    state = "Running" if wish.run else "Paused"
    run.commit("appears", is_whole=True, should_be=state, started_at=now())
