"""A clone: a snapshot of a machine, restored into a machine that is made for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from examples.console.hosted import HostedMonitor
from examples.console.kept import Kept
from examples.console.library import copy_file
from examples.console.machine import Machine
from examples.console.registry import MachineName
from generated_vmm import Drive, FullVmConfiguration, NetworkOverride, SnapshotLoadParams, VmmError
from generated_vmm.model import ApiModel


class Wish(ApiModel):
    """What a clone is called, and what it has of its own."""

    name: MachineName = Field(description="Small letters, digits and hyphens, at most 32.")
    run: bool = Field(default=False, description="Otherwise it stays paused until you resume it.")
    taps: list[NetworkOverride] = Field(
        default=[],
        strict=False,
        description="The clone cannot share those of this machine: name another one for each "
        "network interface there is, as in eth0=tap7.",
    )


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a clone: its snapshot, and the copies of disks by the drive's name."""

    state: Path
    memory: Path
    disks: Mapping[str, Path]

    def remove(self) -> None:
        """Remove what there is of them."""
        for path in (self.state, self.memory, *self.disks.values()):
            path.unlink(missing_ok=True)


async def clone(source: HostedMonitor, wish: Wish) -> None:
    """A new machine goes on where `source` is, which is paused meanwhile; else nothing is left.

    Raises VmmError; ValueError for a name that is taken, a disk that cannot be copied, or an
    interface without a tap device.
    """
    machine = await source.look()
    _require_taps(machine.configuration, wish.taps)
    files = _files(source, machine, wish)
    copy = await source.house.create(wish.name, has_pci=source.kept.has_pci)
    try:
        async with _paused(source, machine):
            # What changes from here on is laid over no earlier snapshot.
            source.kept.last_snapshot = None
            await source.control.snapshot.create(
                snapshot_path=files.state, mem_file_path=files.memory
            )
            await _copy_disks(machine.configuration, files.disks)
        await _restore(copy, machine, files, wish)
        await _keep(copy, source, machine, files)
    except BaseException:
        files.remove()
        await copy.delete()
        raise


def _require_taps(made: FullVmConfiguration, taps: Sequence[NetworkOverride]) -> None:
    needed = {interface.iface_id for interface in made.network_interfaces or []}
    missing = needed - {tap.iface_id for tap in taps}
    if missing:
        raise ValueError(f"Name a tap device for {', '.join(sorted(missing))}.")


def _files(source: HostedMonitor, machine: Machine, wish: Wish) -> Files:
    stem = source.launch.stem(wish.name)
    folder, disks = source.launch.snapshots, source.launch.disks
    written = [drive.drive_id for drive in _written(machine.configuration)]
    _require_files(machine.configuration, written)
    return Files(
        state=folder / f"{stem}.state",
        memory=folder / f"{stem}.memory",
        disks={drive_id: disks / f"{stem}-{drive_id}" for drive_id in written},
    )


def _require_files(made: FullVmConfiguration, drive_ids: Sequence[str]) -> None:
    for drive in made.drives or []:
        if drive.drive_id in drive_ids and not Path(drive.path_on_host or "").is_file():
            raise ValueError(
                f"The disk {drive.path_on_host} is no ordinary file: copy it yourself."
            )


def _written(made: FullVmConfiguration) -> list[Drive]:
    """The drives that a machine writes to."""
    return [drive for drive in made.drives or [] if drive.path_on_host and not drive.is_read_only]


@asynccontextmanager
async def _paused(source: HostedMonitor, machine: Machine) -> AsyncIterator[None]:
    """The guest of a running machine does nothing during the block."""
    if machine.state != "Running":
        yield
        return
    await source.control.pause()
    try:
        yield
    finally:
        await source.control.resume()


async def _copy_disks(made: FullVmConfiguration, copies: Mapping[str, Path]) -> None:
    for drive in _written(made):
        if drive.drive_id in copies and drive.path_on_host:
            await copy_file(Path(drive.path_on_host), copies[drive.drive_id])


async def _restore(copy: HostedMonitor, machine: Machine, files: Files, wish: Wish) -> None:
    made, vsock = machine.configuration, copy.launch.vsock(copy.name)
    tracks = made.machine_config is not None and made.machine_config.track_dirty_pages
    # A client for an older release lacks some of these members, and refuses those it is given.
    members = {
        "snapshot_path": str(files.state),
        "mem_backend": {"backend_type": "File", "backend_path": str(files.memory)},
        "track_dirty_pages": tracks or None,
        "network_overrides": [tap.model_dump() for tap in wish.taps] or None,
        "vsock_override": {"uds_path": str(vsock)} if made.vsock else None,
    }
    given = {name: value for name, value in members.items() if value is not None}
    await copy.control.snapshot.load(SnapshotLoadParams.model_validate(given, strict=False))
    # The guest has not run yet: what it finds on its disks is what it left there.
    for drive_id, disk in files.disks.items():
        await copy.control.drive(drive_id).update(path_on_host=disk)
    if wish.run:
        await copy.control.resume()


async def _keep(copy: HostedMonitor, source: HostedMonitor, machine: Machine, files: Files) -> None:
    """The clone can be started again as its source can; a snapshot has no metadata."""
    copy.kept = Kept(
        has_pci=source.kept.has_pci,
        configuration=_made_of(machine.configuration, files),
        cpu_config=source.kept.cpu_config,
    )
    with suppress(VmmError):  # no interface gives access to them
        await copy.control.mmds.set(await source.metadata())
    copy.kept.backing = str(files.memory)
    copy.events.add(f"Cloned from {source.name}.", detail=_shared(source, files))
    await copy.remember()


def _shared(source: HostedMonitor, files: Files) -> str:
    """What a clone has of its origin, and what was done about it."""
    disks = ", ".join(files.disks) or "none"
    return "\n".join(
        [
            f"Memory: that of {source.name} at this moment, with its keys, sessions and host name.",
            f"Disks that are written to: copied ({disks}). Read-only disks: shared.",
            "Tap devices, vsock: its own. Addresses in the guest: the same; change them.",
            "Random state: the same at first; a guest with VMGenID is told and seeds anew.",
            "SSH host keys, machine-id: the same; make new ones in the guest.",
        ]
    )


def _made_of(made: FullVmConfiguration, files: Files) -> FullVmConfiguration:
    """What the source is made of, with the clone's disks."""
    drives = [
        drive.model_copy(update={"path_on_host": str(files.disks[drive.drive_id])})
        if drive.drive_id in files.disks
        else drive
        for drive in made.drives or []
    ]
    return made.model_copy(update={"drives": drives})
