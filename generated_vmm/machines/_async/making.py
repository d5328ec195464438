"""New machines: created, and made of the memory of another one, which is written for that."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from pathlib import Path

from generated_vmm.concurrency._async import in_thread
from generated_vmm.facade.values import is_root
from generated_vmm.guest import GuestError
from generated_vmm.machines import copies
from generated_vmm.machines._async.control import AsyncControl
from generated_vmm.machines._async.held import AsyncHeld
from generated_vmm.machines._async.operation import AsyncRun, carry_out, conform
from generated_vmm.machines.copies import MEMORY, STATE, Taps, Wish, copies_of, of_its_own
from generated_vmm.machines.definition import (
    Definition,
    disks_of,
    with_files,
)
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.files import (
    copy_file,
    require_whole_disks,
    take_over,
    with_own_disks,
)
from generated_vmm.machines.records import (
    MachineRecord,
    SnapshotRecord,
    creation,
    new_id,
    now,
)
from generated_vmm.misuse import warn_caller
from generated_vmm.process import AsyncJailedMonitor
from generated_vmm.process.mistakes import mistake_of_format

logger = logging.getLogger(__name__)
NO_AGENT = "the definition names no agent that renews them; renew=False says that they are meant"


async def copy_disks(
    run: AsyncRun, definition: Definition, known: Collection[str] | None
) -> Definition:
    """The definition with copies, in the machine's folder, of disks that it writes to.

    The `known` paths stay as they are, all if it is None. Raises ValueError for a disk that it may
    not use or that is no regular file, and for what `require_whole_disks` refuses; and OSError.
    """
    await run.step("copies the disks")
    folder = run.held.folder
    given = copies.with_absolute_files(definition.configuration, known or ())
    given = await in_thread(with_own_disks, given, folder)
    written = [] if known is None else [one for one in disks_of(given) if not one.is_read_only]
    copied = [disk for disk in written if disk.path not in (known or ())]
    paths = {disk.id: copies.name_of_copy(disk.id) for disk in copied}
    made = with_files(given, lambda file: paths.get(file.id, file.path))
    await in_thread(require_whole_disks, made, folder)
    for disk in disks_of(given):
        file, root = folder / disk.path, is_root(dict(disk.device))
        mistake = await in_thread(mistake_of_format, file, is_root=root)
        if mistake and disk.path not in (known or ()):
            warn_caller(mistake)
    for disk in copied:
        source = run.control.options.require_allowed(disk.path)
        await in_thread(copy_file, source, folder / paths[disk.id])
    return definition.replace(configuration=made)


async def create(
    control: AsyncControl, name: str, definition: Definition, by: str, *, copy: bool
) -> AsyncHeld:
    """Makes a machine, which does not run yet."""
    async with carry_out(control, creation("create", name, by), made=definition) as run:
        made = await copy_disks(run, definition, [] if copy else None)
        await run.commit("appears", definition=made, is_whole=True)
    return run.held


async def restore(control: AsyncControl, origin: SnapshotRecord, wish: Wish) -> AsyncHeld:
    """Makes a machine that continues from a snapshot, with copies of its disks."""
    if wish.renew and origin.definition.agent is not None and not origin.is_held:
        raise MachineError(f"the guest did not stand still when {origin.name} was written")
    made = of_its_own(origin.definition, origin.disks, wish.taps)
    source = control.store.snapshots.path(origin.id)
    async with carry_out(control, creation("restore", wish.name, wish.by), made=made) as run:
        await run.step("copies the disks")
        for path in set(origin.disks.values()):
            await in_thread(copy_file, source / path, run.held.folder / path)
        for file in (STATE, MEMORY):
            if run.held.record.uid:  # a link, which every jail that continues from it may read
                os.chmod(source / file, 0o644)
            os.link(source / file, run.held.folder / file)
        await _continue(run, origin, wish)
    return run.held


async def clone(control: AsyncControl, origin: MachineRecord, wish: Wish) -> AsyncHeld:
    """Makes a machine that continues from the present state of another one."""
    new = creation("clone", wish.name, wish.by)
    async with carry_out(control, origin.begun("clone", wish.by, new.machine, wish.name)) as run:
        definition = run.held.record.definition
        disks = copies_of(definition)
        made = of_its_own(definition, disks, wish.taps)
        async with carry_out(control, new, made=made) as making:
            written = await write_down(run, making.held.folder, disks, needs_hold=wish.renew)
            await run.step("starts the clone")
            await _continue(making, written, wish)
    return control.of(new.machine)


async def _continue(run: AsyncRun, origin: SnapshotRecord, wish: Wish) -> None:
    """Loads the memory into the new machine, renews its identity, and makes it appear."""
    held = run.held
    await run.step("starts the monitor")
    await load(run, origin, wish.taps)
    if wish.renew and origin.definition.agent is not None:
        await run.step("gets an identity")
        await held.client.resume()
        async with held.guest() as guest:  # raises if anything has run before
            if (await guest.wait_until_ready(guest.timeout)).isolated:
                await guest.renew_identity(hostname=wish.name, release=True)
    elif wish.renew:
        what = "%s has the machine id, SSH keys and random numbers of %s: %s"
        logger.warning(what, wish.name, origin.machine_name, NO_AGENT)
    state = "Running" if wish.run else "Paused"
    await run.commit("appears", is_whole=True, should_be=state, started_at=now())


async def write_down(
    run: AsyncRun, folder: Path, copied: dict[str, str], *, needs_hold: bool
) -> SnapshotRecord:
    """Writes the memory and copies of the disks to a folder, at the paths `copied`.

    The machine is paused meanwhile, and runs again afterwards if it ran. Raises VmmError, OSError,
    ValueError, and `MachineError` if the monitor has other disks than the definition.
    """
    run.require("Running", "Paused")
    await _require_defined_disks(run.held)
    held, operation = run.held, run.operation
    record = held.record
    is_held = await _hold(run, is_needed=needs_hold)
    if record.should_be == "Running":
        await run.step("pauses the machine")
        await held.client.pause()
    await run.step("writes the memory")
    await _write_memory(held, folder)
    await run.step("copies the disks")
    disks = disks_of(record.definition.configuration)
    paths = {disk.path: copied[disk.id] for disk in disks if disk.id in copied}
    for path, copy in paths.items():
        if path.startswith("/"):
            held.options.require_allowed(path)
        await in_thread(copy_file, held.store.source(record, path), folder / copy)
    await run.step("resumes the machine")
    await conform(held)
    for name in (STATE, MEMORY):
        await in_thread(take_over, folder / name)
    return SnapshotRecord(
        id=operation.target,
        name=operation.target_name or f"{record.name}-{now():%Y%m%d-%H%M%S}",
        machine=record.id,
        machine_name=record.name,
        definition=record.definition,
        disks=copied,
        is_held=is_held,
    )


async def _require_defined_disks(held: AsyncHeld) -> None:
    """A copy has the disks of the definition; its memory would lead it to those of the monitor."""
    shown, record = await held.client.vm_config.get(), held.record
    runs, defined = (
        {(disk.id, disk.path, disk.is_read_only) for disk in disks_of(configuration)}
        for configuration in (shown, record.definition.configuration)
    )
    if runs != defined:
        raise MachineError(
            f"{record.name} runs with other disks than its definition: start it again"
        )


async def _hold(run: AsyncRun, *, is_needed: bool) -> bool:
    """Whether the agent makes everything else stand still, until the machine is resumed.

    So the guest stands still in a copy too, until it has an identity of its own. If that is needed,
    raises `GuestError`, and `MachineError` for a paused machine.
    """
    record = run.held.record
    if record.definition.agent is None:
        return False
    await run.step("holds the guest")
    try:
        if record.should_be == "Paused":
            raise MachineError(f"{record.name} is paused: resume it, so that its agent can hold it")
        async with run.held.guest() as guest:
            await guest.hold()
    except (GuestError, MachineError, OSError):
        if is_needed:
            raise
        return False
    return True


async def _write_memory(held: AsyncHeld, folder: Path) -> None:
    """In a jail, the monitor writes through links to the new files, which are removed then."""
    monitor, inside = held.monitor, {name: str(folder / name) for name in (STATE, MEMORY)}
    if isinstance(monitor, AsyncJailedMonitor):
        inside = {name: f"/{name}-{new_id()}" for name in inside}
        for name, path in inside.items():
            os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            await monitor.link_in(folder / name, path, give=True)
    vm = held.client.with_options(timeout=held.options.snapshot_timeout)
    try:
        await vm.snapshot.create(
            snapshot_path=inside[STATE], mem_file_path=inside[MEMORY], snapshot_type="Full"
        )
    finally:
        if isinstance(monitor, AsyncJailedMonitor):
            for path in inside.values():
                monitor.outside(path).unlink(missing_ok=True)


async def load(run: AsyncRun, origin: SnapshotRecord, taps: Taps) -> None:
    """Starts a machine from `state` and `memory` in its folder, paused.

    Its own disks take the place of those of `origin`. Raises VmmError, OSError and ValueError.
    """
    held, definition = run.held, run.held.record.definition
    vm = await held.start()
    files = [held.folder / name for name in (STATE, MEMORY)]
    for file in files:
        is_own = file.stat().st_nlink == 1  # else that of a snapshot
        await held.admit(file.name, writable=is_own)
    own = {disk.id: disk.path for disk in disks_of(definition.configuration)}
    disks = disks_of(origin.definition.configuration)
    moved = [disk for disk in disks if own[disk.id] != disk.path]
    for disk in moved:
        await held.admit(own[disk.id], writable=True, at=disk.path)
    await run.step("loads the memory")
    loading = vm.with_options(timeout=held.options.snapshot_timeout)
    await loading.snapshot.load(copies.to_load(definition, origin.definition, taps))
    for disk in moved:
        await vm.drive(disk.id).update(path_on_host=own[disk.id])
    if definition.metadata is not None and definition.configuration.mmds_config:
        await vm.mmds.set(definition.metadata)
    for file in files:  # the monitor has both open: their blocks are free when it ends
        file.unlink()
