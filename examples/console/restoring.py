"""Snapshots of machines with copies of their writable disks, and restoring them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from examples.console.hosted import HostedMonitor
from examples.console.jail import bring_in, give, require
from examples.console.kept import SnapshotFiles
from examples.console.library import copy_file, disk_of
from examples.console.machine import pmem_of
from generated_vmm import Drive, FullVmConfiguration, SnapshotCreateParams, SnapshotLoadParams

DRIVE_ID: Final = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Files:
    """State, memory, and copies of the writable disks, by the drive's name."""

    state: Path
    memory: Path
    disks: Mapping[str, Path]

    @classmethod
    def of_snapshot(cls, state: Path, memory: Path, made: FullVmConfiguration) -> Self:
        """The files of a snapshot in the library."""
        return cls(
            state, memory, {one.drive_id: disk_of(state, one.drive_id) for one in written(made)}
        )

    @property
    def all(self) -> list[Path]:
        """All of them."""
        return [self.state, self.memory, *self.disks.values()]

    @property
    def names(self) -> SnapshotFiles:
        """State and memory, for the monitor."""
        return SnapshotFiles(snapshot_path=str(self.state), mem_file_path=str(self.memory))


def remove(paths: Iterable[Path]) -> None:
    """Remove the existing files."""
    for path in paths:
        path.unlink(missing_ok=True)


def written(made: FullVmConfiguration) -> list[Drive]:
    """The writable drives of a machine. ValueError for one whose name no file can have."""
    drives = [one for one in made.drives or [] if one.path_on_host and not one.is_read_only]
    if wrong := [one.drive_id for one in drives if not DRIVE_ID.fullmatch(one.drive_id)]:
        raise ValueError(f"No file can have the name of the drive {wrong[0]}.")
    return drives


async def snapshot(machine: HostedMonitor, name: str) -> None:
    """Write a paused machine to new files of the library. Raises VmmError and ValueError."""
    library, made = machine.house.library, (await machine.look()).configuration
    files = Files.of_snapshot(*library.named(name), made)
    try:
        await write_down(machine, made, files)
        library.describe(files.state, machine.name, made)
    except BaseException:
        remove(files.all)
        raise
    machine.kept.last_snapshot = files.names


async def update_snapshot(machine: HostedMonitor) -> None:
    """Write the changes into the last snapshot. Raises VmmError and ValueError."""
    last = machine.kept.last_snapshot
    if last is None:
        raise ValueError("There is no snapshot of this run: create one first.")
    if users := machine.house.users_of(Path(last.mem_file_path)):
        raise ValueError(f"{', '.join(users)} runs from the last snapshot: create another.")
    made, state = (await machine.look()).configuration, Path(last.snapshot_path)
    files = Files.of_snapshot(state, Path(last.mem_file_path), made)
    await write_down(machine, made, files, "Diff")
    machine.house.library.describe(state, machine.name, made)


async def write_down(
    machine: HostedMonitor,
    made: FullVmConfiguration,
    files: Files,
    kind: Literal["Full", "Diff"] = "Full",
) -> None:
    """Write a paused machine to `files`. Raises VmmError and ValueError."""
    disks = {one.drive_id: _disk(machine, str(one.path_on_host)) for one in written(made)}
    await _write_memory(machine, files, kind)
    for drive_id, disk in disks.items():
        await copy_file(disk, files.disks[drive_id])


def _disk(machine: HostedMonitor, path: str) -> Path:
    """A disk of the machine that can be copied. Raises ValueError."""
    disk = require(machine, path, ("disks",), writes=True)
    if not disk.is_file():
        raise ValueError(f"The disk {path} is no ordinary file: copy it yourself.")
    return disk


async def _write_memory(
    machine: HostedMonitor, files: Files, kind: Literal["Full", "Diff"]
) -> None:
    """Write state and memory; the machine's jail has access to the files meanwhile."""
    jail, paths = machine.jail, [files.state, files.memory]
    wanted = SnapshotCreateParams(
        snapshot_path=files.state, mem_file_path=files.memory, snapshot_type=kind
    )
    try:
        if jail is not None:
            for path in paths:
                path.touch(0o600)
                await bring_in(jail, path, str(path), machine.kept.uid)
        await machine.control.snapshot.create(wanted)
    finally:
        for path in paths if jail else []:
            give(path, 0)


async def restore(machine: HostedMonitor, wanted: SnapshotLoadParams) -> None:
    """Continue from a snapshot with copies of its disks. Raises VmmError and ValueError."""
    if wanted.mem_backend is None:
        raise ValueError("The memory file is missing.")
    state, memory = Path(wanted.snapshot_path), Path(wanted.mem_backend.backend_path)
    made = machine.house.library.about(state).made or FullVmConfiguration()
    copies = Files.of_snapshot(state, memory, made).disks
    files = Files(state, memory, machine.new_disks(copies))
    try:
        for drive_id, disk in files.disks.items():
            await copy_file(copies[drive_id], disk)
        paused = wanted.model_copy()
        paused.resume_vm = False
        await go_on(machine, made, files, paused)
        await _require_own(machine)
    except BaseException:
        await machine.end()  # it may have opened forbidden files
        remove(files.disks.values())
        raise
    machine.kept.configuration = with_disks(made, files) if made.drives else None
    machine.kept.backing = str(memory)
    if wanted.resume_vm:
        await machine.control.resume()


async def go_on(
    machine: HostedMonitor, made: FullVmConfiguration, files: Files, wanted: SnapshotLoadParams
) -> None:
    """Load a snapshot into an empty monitor, paused, and give it its own disks.

    A jailed monitor finds the copies in place of the originals; an unjailed one opens the originals
    for a moment, while its guest is paused. Raises VmmError and ValueError.
    """
    for file in (files.state, files.memory):
        await machine.admit(str(file), ("snapshots", "machine"), writes=False)
    for drive in made.drives or []:
        if drive.path_on_host and (disk := files.disks.get(drive.drive_id)):
            await machine.admit(str(disk), ("disks",), writes=True, at=drive.path_on_host)
            await machine.admit(str(disk), ("disks",), writes=True)
        elif drive.path_on_host:
            await machine.admit(drive.path_on_host, ("disks",), writes=False)
    for device in pmem_of(made):
        await machine.admit(device.path_on_host, ("disks",), writes=not device.read_only)
    await machine.control.snapshot.load(wanted)
    for drive_id, disk in files.disks.items():
        await machine.control.drive(drive_id).update(path_on_host=disk)


async def _require_own(machine: HostedMonitor) -> None:
    """Raises ValueError if the restored machine has a forbidden disk."""
    for drive in (await machine.look()).drives:
        if drive.path_on_host:
            require(machine, drive.path_on_host, ("disks",), writes=not drive.is_read_only)


def with_disks(made: FullVmConfiguration, files: Files) -> FullVmConfiguration:
    """The configuration of the origin, with the disks of the restored machine."""
    copy = made.model_copy()
    copy.drives = [_moved(one, files.disks.get(one.drive_id)) for one in made.drives or []]
    return copy


def _moved(drive: Drive, disk: Path | None) -> Drive:
    moved = drive.model_copy()
    if disk is not None:
        moved.path_on_host = str(disk)
    return moved
