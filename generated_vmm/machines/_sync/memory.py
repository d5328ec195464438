# Derived from `generated_vmm/machines/_async/memory.py` by `make codegen`. Do not edit.
"""The memory of machines: written to files with copies of the disks, and loaded from them."""

from __future__ import annotations

import os
from pathlib import Path

from generated_vmm.concurrency._sync import in_thread
from generated_vmm.guest import GuestError
from generated_vmm.machines._sync.conforming import HOLDS, PAUSES, conform
from generated_vmm.machines._sync.furnish import shown
from generated_vmm.machines._sync.operation import Run
from generated_vmm.machines.copies import MEMORY, STATE, Taps, copies_of, to_load
from generated_vmm.machines.definition import disks_of
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.files import copy_file, take_over
from generated_vmm.machines.records import MachineRecord, SnapshotRecord, new_id, now
from generated_vmm.process import JailedMonitor


def write_down(run: Run, folder: Path, *, needs_hold: bool) -> SnapshotRecord:
    """Writes the memory and copies of the disks to a folder.

    The machine is paused meanwhile, and runs again afterwards if it ran. Raises VmmError, OSError
    and ValueError.
    """
    run.require("Running", "Paused")
    control, operation = run.control, run.operation
    record = run.record
    record = control.change(record, definition=shown(control, record))
    copies = copies_of(record.definition)
    is_held = _hold(run, record, is_needed=needs_hold)
    if record.should_be == "Running":
        run.step(PAUSES)
        control.monitors.client(record).pause()
    run.step("writes the memory")
    _write_memory(run, record, folder)
    run.step("copies the disks")
    for disk in disks_of(record.definition.configuration):
        if disk.id in copies:
            if disk.path.startswith("/"):
                control.options.require_allowed(disk.path)
            source = control.store.source(record, disk.path)
            in_thread(copy_file, source, folder / copies[disk.id])
    run.step("resumes the machine")
    conform(control, record)
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


def _hold(run: Run, record: MachineRecord, *, is_needed: bool) -> bool:
    """Whether the agent makes everything else stand still, until the machine is resumed.

    So the guest stands still in a copy too, until it has an identity of its own. If that is needed,
    raises `GuestError`, and `MachineError` for a paused machine.
    """
    if record.definition.agent is None:
        return False
    run.step(HOLDS)
    try:
        if record.should_be == "Paused":
            raise MachineError(f"{record.name} is paused: resume it, so that its agent can hold it")
        with run.control.monitors.guest(record) as guest:
            guest.hold()
    except (GuestError, MachineError, OSError):
        if is_needed:
            raise
        return False
    return True


def _write_memory(run: Run, record: MachineRecord, folder: Path) -> None:
    """In a jail, the monitor writes through links to the new files, which are removed then."""
    control, monitor = run.control, run.control.monitors.get(record.id)
    inside = {name: str(folder / name) for name in (STATE, MEMORY)}
    if isinstance(monitor, JailedMonitor):
        inside = {name: f"/{name}-{new_id()}" for name in inside}
        for name, path in inside.items():
            os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            monitor.link_in(folder / name, path, give=True)
    vm = control.monitors.client(record).with_options(timeout=control.options.snapshot_timeout)
    try:
        vm.snapshot.create(
            snapshot_path=inside[STATE], mem_file_path=inside[MEMORY], snapshot_type="Full"
        )
    finally:
        if isinstance(monitor, JailedMonitor):
            for path in inside.values():
                monitor.outside(path).unlink(missing_ok=True)


def load(run: Run, record: MachineRecord, origin: SnapshotRecord, taps: Taps) -> None:
    """Starts a machine from `state` and `memory` in its folder, paused.

    `record` has its own disks, which take the place of those of `origin`. Raises VmmError, OSError
    and ValueError.
    """
    control, monitors = run.control, run.control.monitors
    run.step("starts the monitor")
    vm = monitors.start(record)
    files = {name: control.store.source(record, name) for name in (STATE, MEMORY)}
    for name, file in files.items():
        is_own = file.stat().st_nlink == 1  # else that of a snapshot
        monitors.admit(record, name, writable=is_own)
    own = {disk.id: disk.path for disk in disks_of(record.definition.configuration)}
    moved = [
        disk for disk in disks_of(origin.definition.configuration) if own[disk.id] != disk.path
    ]
    for disk in moved:
        monitors.admit(record, own[disk.id], writable=True, at=disk.path)
    run.step("loads the memory")
    loading = vm.with_options(timeout=control.options.snapshot_timeout)
    loading.snapshot.load(to_load(record.definition, origin.definition, taps))
    for disk in moved:
        vm.drive(disk.id).update(path_on_host=own[disk.id])
    if record.definition.metadata is not None and record.definition.configuration.mmds_config:
        vm.mmds.set(record.definition.metadata)
    for file in files.values():  # the monitor has both open: their blocks are free when it ends
        file.unlink()
