"""The memory of machines: written to files with copies of the disks, and loaded from them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from generated_vmm import MemoryBackend, NetworkOverride, SnapshotLoadParams, VsockOverride
from generated_vmm.concurrency._async import in_thread
from generated_vmm.machines._async.operation import AsyncControl, AsyncRun
from generated_vmm.machines._async.renewal import go_on, hold
from generated_vmm.machines.definition import OWN_DISKS, Definition, disks_of, with_paths
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.files import copy_file, take_over
from generated_vmm.machines.records import MachineRecord, SnapshotRecord, new_id
from generated_vmm.process import AsyncJailedMonitor, AsyncMonitor

if TYPE_CHECKING:
    from generated_vmm import SnapshotLoadParamsFields

STATE, MEMORY = "state", "memory"
"""The files with the state of the devices, and with the memory."""
VSOCK = "vsock.socket"


def name_of_copy(disk: str) -> str:
    """A new path for a copy of a disk, in the folder of its machine or snapshot."""
    letters = "".join(each for each in disk if each.isascii() and each.isalnum())[:40]
    return f"{OWN_DISKS}{letters or 'disk'}-{new_id()}"


def copies_of(definition: Definition) -> dict[str, str]:
    """The paths for copies of the disks that a machine writes to; its own keep their paths."""
    written = [disk for disk in disks_of(definition.configuration) if not disk.is_read_only]
    return {
        disk.id: name_of_copy(disk.id) if disk.path.startswith("/") else disk.path
        for disk in written
    }


async def write_down(
    control: AsyncControl, run: AsyncRun, record: MachineRecord, folder: Path
) -> dict[str, str]:
    """Writes the memory and copies of the disks to a folder; returns the paths of the copies.

    The machine is paused meanwhile, and runs again afterwards if it ran. If it has an agent, its
    guest stands still before. Raises VmmError, OSError and ValueError.
    """
    vm = control.monitors.require(record.id, record.name)
    state = (await vm.get_instance_info()).state
    if state == "Not started":
        raise MachineError(f"{record.name} has not been started")
    if state == "Paused" and record.definition.agent is not None:
        raise MachineError(f"{record.name} is paused: resume it, so that its agent can hold it")
    copies = copies_of(record.definition)
    if state == "Running":
        await run.step("holds the guest", resumes=True)
        await hold(control.monitors, record)
        await run.step("pauses the machine")
        await vm.pause()
    await run.step("writes the memory")
    await _write_memory(control, record, folder)
    await run.step("copies the disks")
    for disk in disks_of(record.definition.configuration):
        if disk.id in copies and not disk.is_read_only:
            source = control.store.source(record, disk.path)
            if disk.path.startswith("/"):
                control.options.require_allowed(disk.path)
            await in_thread(copy_file, source, folder / copies[disk.id])
    if state == "Running":
        await run.step("resumes the machine")
        await vm.resume()
        await go_on(control.monitors, record)
    await in_thread(take_over, folder / STATE)
    await in_thread(take_over, folder / MEMORY)
    return copies


async def _write_memory(control: AsyncControl, record: MachineRecord, folder: Path) -> None:
    """In a jail, the monitor writes through links to the new files, which are removed then."""
    monitor = control.monitors.get(record.id)
    inside = {name: str(folder / name) for name in (STATE, MEMORY)}
    if isinstance(monitor, AsyncJailedMonitor):
        inside = {name: f"/{name}-{new_id()}" for name in inside}
        for name, path in inside.items():
            os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            await monitor.link_in(folder / name, path, give=True)
    vm = control.monitors.require(record.id, record.name)
    try:
        await vm.with_options(timeout=control.options.snapshot_timeout).snapshot.create(
            snapshot_path=inside[STATE], mem_file_path=inside[MEMORY], snapshot_type="Full"
        )
    finally:
        _remove_links(monitor, inside)


def _remove_links(monitor: AsyncMonitor | None, inside: Mapping[str, str]) -> None:
    if isinstance(monitor, AsyncJailedMonitor):
        for path in inside.values():
            monitor.outside(path).unlink(missing_ok=True)


async def load(
    control: AsyncControl,
    run: AsyncRun,
    record: MachineRecord,
    origin: SnapshotRecord,
    taps: Mapping[str, str],
) -> None:
    """Starts a machine from `state` and `memory` in its folder, paused.

    `record` has its own disks, which take the place of those of `origin`. Raises VmmError, OSError
    and ValueError.
    """
    await run.step("starts the monitor")
    vm = await control.monitors.start(record)
    for name in (STATE, MEMORY):
        await control.monitors.admit(record, name, writable=_is_own(control, record, name))
    own = {disk.id: disk.path for disk in disks_of(record.definition.configuration)}
    moved = [one for one in disks_of(origin.definition.configuration) if own[one.id] != one.path]
    for disk in moved:
        await control.monitors.admit(record, own[disk.id], writable=True, at=disk.path)
    await run.step("loads the memory")
    wanted = _wanted(record.definition, origin.definition, taps)
    await vm.with_options(timeout=control.options.snapshot_timeout).snapshot.load(wanted)
    for disk in moved:
        await vm.drive(disk.id).update(path_on_host=own[disk.id])
    if record.definition.metadata is not None and record.definition.configuration.mmds_config:
        await vm.mmds.set(record.definition.metadata)
    # The monitor has both open: their blocks are free when it ends.
    for name in (STATE, MEMORY):
        control.store.source(record, name).unlink()


def _is_own(control: AsyncControl, record: MachineRecord, name: str) -> bool:
    """Whether no snapshot shares this file."""
    return control.store.source(record, name).stat().st_nlink == 1


def _wanted(
    definition: Definition, origin: Definition, taps: Mapping[str, str]
) -> SnapshotLoadParams:
    """A client for an older release lacks some members, and refuses them: unneeded ones are not
    set."""
    made = definition.configuration
    given: SnapshotLoadParamsFields = {
        "snapshot_path": STATE,
        "mem_backend": MemoryBackend(backend_type="File", backend_path=MEMORY),
    }
    if made.machine_config is not None and made.machine_config.track_dirty_pages:
        given["track_dirty_pages"] = True
    if taps:
        given["network_overrides"] = [
            NetworkOverride(iface_id=name, host_dev_name=tap) for name, tap in taps.items()
        ]
    vsock = origin.configuration.vsock
    if made.vsock is not None and vsock is not None and made.vsock.uds_path != vsock.uds_path:
        given["vsock_override"] = VsockOverride(uds_path=made.vsock.uds_path)
    return SnapshotLoadParams(**given)


def of_its_own(
    origin: Definition, copies: Mapping[str, str], taps: Mapping[str, str]
) -> Definition:
    """The definition of a machine that continues from the memory of another one.

    It has its own disks, tap devices and vsock socket. Raises `MachineError` if it cannot have.
    """
    made = with_paths(origin.configuration, copies)
    interfaces = made.network_interfaces or []
    missing = sorted({one.iface_id for one in interfaces} - set(taps))
    if missing:
        raise MachineError(f"name a tap device for {', '.join(missing)}")
    for interface in interfaces:
        interface.host_dev_name = taps[interface.iface_id]
    shared = {one.id for one in origin.configuration.pmem or [] if one.path_on_host[:1] == "/"}
    if shared & set(copies):
        raise MachineError("a monitor cannot replace the file of persistent memory")
    if made.vsock is not None:
        made.vsock.uds_path = _own_socket(made.vsock.uds_path)
    return origin.replace(configuration=made, taps=(), autostart=False)


def _own_socket(path: str) -> str:
    return VSOCK if path.startswith("/") else path
