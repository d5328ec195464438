# Derived from `generated_vmm/machines/_async/making.py` by `make codegen`. Do not edit.
"""New machines: created, and made of the memory of another one, which is written for that."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from pathlib import Path

from generated_vmm.concurrency._sync import in_thread
from generated_vmm.facade.values import is_root
from generated_vmm.guest import GuestError
from generated_vmm.machines import copies
from generated_vmm.machines._sync.control import Control
from generated_vmm.machines._sync.held import Held
from generated_vmm.machines._sync.operation import Run, carry_out, conform
from generated_vmm.machines.copies import MEMORY, STATE, Taps, Wish, copies_of, of_its_own
from generated_vmm.machines.definition import Definition, disks_of, with_files
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.files import copy_file, require_whole_disks, take_over, with_own_disks
from generated_vmm.machines.records import MachineRecord, SnapshotRecord, creation, new_id, now
from generated_vmm.misuse import warn_caller
from generated_vmm.process import JailedMonitor
from generated_vmm.process.mistakes import mistake_of_format

logger = logging.getLogger(__name__)
NO_AGENT = "the definition names no agent that renews them; renew=False says that they are meant"


def copy_disks(run: Run, definition: Definition, known: Collection[str] | None) -> Definition:
    """The definition with copies, in the machine's folder, of disks that it writes to.

    The `known` paths stay as they are, all if it is None. Raises ValueError for a disk that it may
    not use or that is no regular file, and for what `require_whole_disks` refuses; and OSError.
    """
    run.step("copies the disks")
    folder = run.held.folder
    given = copies.with_absolute_files(definition.configuration, known or ())
    given = in_thread(with_own_disks, given, folder)
    written = [] if known is None else [one for one in disks_of(given) if not one.is_read_only]
    copied = [disk for disk in written if disk.path not in (known or ())]
    paths = {disk.id: copies.name_of_copy(disk.id) for disk in copied}
    made = with_files(given, lambda file: paths.get(file.id, file.path))
    in_thread(require_whole_disks, made, folder)
    for disk in disks_of(given):
        file, root = folder / disk.path, is_root(dict(disk.device))
        mistake = in_thread(mistake_of_format, file, is_root=root)
        if mistake and disk.path not in (known or ()):
            warn_caller(mistake)
    for disk in copied:
        source = run.control.options.require_allowed(disk.path)
        in_thread(copy_file, source, folder / paths[disk.id])
    return definition.replace(configuration=made)


def create(control: Control, name: str, definition: Definition, by: str, *, copy: bool) -> Held:
    """Makes a machine, which does not run yet."""
    with carry_out(control, creation("create", name, by), made=definition) as run:
        made = copy_disks(run, definition, [] if copy else None)
        run.commit("appears", definition=made, is_whole=True)
    return run.held


def restore(control: Control, origin: SnapshotRecord, wish: Wish) -> Held:
    """Makes a machine that continues from a snapshot, with copies of its disks."""
    if wish.renew and origin.definition.agent is not None and not origin.is_held:
        raise MachineError(f"the guest did not stand still when {origin.name} was written")
    made = of_its_own(origin.definition, origin.disks, wish.taps)
    source = control.store.snapshots.path(origin.id)
    with carry_out(control, creation("restore", wish.name, wish.by), made=made) as run:
        run.step("copies the disks")
        for path in set(origin.disks.values()):
            in_thread(copy_file, source / path, run.held.folder / path)
        for file in (STATE, MEMORY):
            if run.held.record.uid:  # a link, which every jail that continues from it may read
                os.chmod(source / file, 0o644)
            os.link(source / file, run.held.folder / file)
        _continue(run, origin, wish)
    return run.held


def clone(control: Control, origin: MachineRecord, wish: Wish) -> Held:
    """Makes a machine that continues from the present state of another one."""
    new = creation("clone", wish.name, wish.by)
    with carry_out(control, origin.begun("clone", wish.by, new.machine, wish.name)) as run:
        definition = run.held.record.definition
        disks = copies_of(definition)
        made = of_its_own(definition, disks, wish.taps)
        with carry_out(control, new, made=made) as making:
            written = write_down(run, making.held.folder, disks, needs_hold=wish.renew)
            run.step("starts the clone")
            _continue(making, written, wish)
    return control.of(new.machine)


def _continue(run: Run, origin: SnapshotRecord, wish: Wish) -> None:
    """Loads the memory into the new machine, renews its identity, and makes it appear."""
    held = run.held
    run.step("starts the monitor")
    load(run, origin, wish.taps)
    if wish.renew and origin.definition.agent is not None:
        run.step("gets an identity")
        held.client.resume()
        with held.guest() as guest:  # raises if anything has run before
            if (guest.wait_until_ready(guest.timeout)).isolated:
                guest.renew_identity(hostname=wish.name, release=True)
    elif wish.renew:
        what = "%s has the machine id, SSH keys and random numbers of %s: %s"
        logger.warning(what, wish.name, origin.machine_name, NO_AGENT)
    state = "Running" if wish.run else "Paused"
    run.commit("appears", is_whole=True, should_be=state, started_at=now())


def write_down(
    run: Run, folder: Path, copied: dict[str, str], *, needs_hold: bool
) -> SnapshotRecord:
    """Writes the memory and copies of the disks to a folder, at the paths `copied`.

    The machine is paused meanwhile, and runs again afterwards if it ran. Raises VmmError, OSError,
    ValueError, and `MachineError` if the monitor has other disks than the definition.
    """
    run.require("Running", "Paused")
    _require_defined_disks(run.held)
    held, operation = run.held, run.operation
    record = held.record
    is_held = _hold(run, is_needed=needs_hold)
    if record.should_be == "Running":
        run.step("pauses the machine")
        held.client.pause()
    run.step("writes the memory")
    _write_memory(held, folder)
    run.step("copies the disks")
    disks = disks_of(record.definition.configuration)
    paths = {disk.path: copied[disk.id] for disk in disks if disk.id in copied}
    for path, copy in paths.items():
        if path.startswith("/"):
            held.options.require_allowed(path)
        in_thread(copy_file, held.store.source(record, path), folder / copy)
    run.step("resumes the machine")
    conform(held)
    for name in (STATE, MEMORY):
        in_thread(take_over, folder / name)
    return SnapshotRecord(
        id=operation.target,
        name=operation.target_name or f"{record.name}-{now():%Y%m%d-%H%M%S}",
        machine=record.id,
        machine_name=record.name,
        definition=record.definition,
        disks=copied,
        is_held=is_held,
    )


def _require_defined_disks(held: Held) -> None:
    """A copy has the disks of the definition; its memory would lead it to those of the monitor."""
    shown, record = held.client.vm_config.get(), held.record
    runs, defined = (
        {(disk.id, disk.path, disk.is_read_only) for disk in disks_of(configuration)}
        for configuration in (shown, record.definition.configuration)
    )
    if runs != defined:
        raise MachineError(
            f"{record.name} runs with other disks than its definition: start it again"
        )


def _hold(run: Run, *, is_needed: bool) -> bool:
    """Whether the agent makes everything else stand still, until the machine is resumed.

    So the guest stands still in a copy too, until it has an identity of its own. If that is needed,
    raises `GuestError`, and `MachineError` for a paused machine.
    """
    record = run.held.record
    if record.definition.agent is None:
        return False
    run.step("holds the guest")
    try:
        if record.should_be == "Paused":
            raise MachineError(f"{record.name} is paused: resume it, so that its agent can hold it")
        with run.held.guest() as guest:
            guest.hold()
    except (GuestError, MachineError, OSError):
        if is_needed:
            raise
        return False
    return True


def _write_memory(held: Held, folder: Path) -> None:
    """In a jail, the monitor writes through links to the new files, which are removed then."""
    monitor, inside = held.monitor, {name: str(folder / name) for name in (STATE, MEMORY)}
    if isinstance(monitor, JailedMonitor):
        inside = {name: f"/{name}-{new_id()}" for name in inside}
        for name, path in inside.items():
            os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            monitor.link_in(folder / name, path, give=True)
    vm = held.client.with_options(timeout=held.options.snapshot_timeout)
    try:
        vm.snapshot.create(
            snapshot_path=inside[STATE], mem_file_path=inside[MEMORY], snapshot_type="Full"
        )
    finally:
        if isinstance(monitor, JailedMonitor):
            for path in inside.values():
                monitor.outside(path).unlink(missing_ok=True)


def load(run: Run, origin: SnapshotRecord, taps: Taps) -> None:
    """Starts a machine from `state` and `memory` in its folder, paused.

    Its own disks take the place of those of `origin`. Raises VmmError, OSError and ValueError.
    """
    held, definition = run.held, run.held.record.definition
    vm = held.start()
    files = [held.folder / name for name in (STATE, MEMORY)]
    for file in files:
        is_own = file.stat().st_nlink == 1  # else that of a snapshot
        held.admit(file.name, writable=is_own)
    own = {disk.id: disk.path for disk in disks_of(definition.configuration)}
    disks = disks_of(origin.definition.configuration)
    moved = [disk for disk in disks if own[disk.id] != disk.path]
    for disk in moved:
        held.admit(own[disk.id], writable=True, at=disk.path)
    run.step("loads the memory")
    loading = vm.with_options(timeout=held.options.snapshot_timeout)
    loading.snapshot.load(copies.to_load(definition, origin.definition, taps))
    for disk in moved:
        vm.drive(disk.id).update(path_on_host=own[disk.id])
    if definition.metadata is not None and definition.configuration.mmds_config:
        vm.mmds.set(definition.metadata)
    for file in files:  # the monitor has both open: their blocks are free when it ends
        file.unlink()
