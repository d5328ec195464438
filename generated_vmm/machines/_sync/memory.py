# Derived from `generated_vmm/machines/_async/memory.py` by `make codegen`. Do not edit.
"""The memory of machines: written to files with copies of the disks, and loaded from them."""

from __future__ import annotations

import os
from pathlib import Path

from generated_vmm.concurrency._sync import in_thread
from generated_vmm.guest import GuestError
from generated_vmm.machines._sync.conforming import HOLDS, PAUSES, conform
from generated_vmm.machines._sync.furnish import shown
from generated_vmm.machines._sync.held import Held
from generated_vmm.machines._sync.operation import Run
from generated_vmm.machines.copies import MEMORY, STATE, Taps, copies_of, to_load
from generated_vmm.machines.definition import disks_of
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.files import copy_file, take_over
from generated_vmm.machines.records import SnapshotRecord, new_id, now
from generated_vmm.process import JailedMonitor


def write_down(run: Run, folder: Path, *, needs_hold: bool) -> SnapshotRecord:
    """Writes the memory and copies of the disks to a folder.

    The machine is paused meanwhile, and runs again afterwards if it ran. Raises VmmError, OSError
    and ValueError.
    """
    run.require("Running", "Paused")
    held, operation = run.held, run.operation
    record = held.change(definition=shown(held))
    copies = copies_of(record.definition)
    is_held = _hold(run, is_needed=needs_hold)
    if record.should_be == "Running":
        run.step(PAUSES)
        held.client.pause()
    run.step("writes the memory")
    _write_memory(held, folder)
    run.step("copies the disks")
    for disk in disks_of(record.definition.configuration):
        if disk.id in copies:
            if disk.path.startswith("/"):
                held.options.require_allowed(disk.path)
            source = held.store.source(record, disk.path)
            in_thread(copy_file, source, folder / copies[disk.id])
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
        disks=copies,
        is_held=is_held,
    )


def _hold(run: Run, *, is_needed: bool) -> bool:
    """Whether the agent makes everything else stand still, until the machine is resumed.

    So the guest stands still in a copy too, until it has an identity of its own. If that is needed,
    raises `GuestError`, and `MachineError` for a paused machine.
    """
    record = run.held.record
    if record.definition.agent is None:
        return False
    run.step(HOLDS)
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
    loading.snapshot.load(to_load(definition, origin.definition, taps))
    for disk in moved:
        vm.drive(disk.id).update(path_on_host=own[disk.id])
    if definition.metadata is not None and definition.configuration.mmds_config:
        vm.mmds.set(definition.metadata)
    for file in files:  # the monitor has both open: their blocks are free when it ends
        file.unlink()
