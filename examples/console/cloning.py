"""A clone: a snapshot of a machine, restored into a new machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from pydantic import Field

from examples.console.hosted import HostedMonitor
from examples.console.kept import Kept
from examples.console.machine import Machine
from examples.console.registry import MachineName
from examples.console.restoring import Files, go_on, remove, with_disks, write_down, written
from examples.console.words import SHARED
from generated_vmm import (
    FullVmConfiguration,
    MemoryBackend,
    NetworkOverride,
    SnapshotLoadParams,
    VmmError,
    VsockOverride,
)
from generated_vmm.model import ApiModel

if TYPE_CHECKING:
    from generated_vmm import SnapshotLoadParamsFields


class Wish(ApiModel):
    """The name of a clone, and its own devices."""

    name: MachineName = Field(description="Small letters, digits and hyphens, at most 32.")
    run: bool = Field(default=False, description="Otherwise it stays paused until you resume it.")
    taps: list[NetworkOverride] = Field(
        default=[],
        strict=False,
        description="The clone cannot share those of this machine: name another one for each "
        "network interface there is, as in eth0=tap7.",
    )


async def clone(source: HostedMonitor, wish: Wish) -> None:
    """Creates a machine from the state of `source`, which is paused meanwhile.

    Raises VmmError, and ValueError for a name that is taken, a disk that cannot be copied, or an
    interface without a tap device; nothing is left behind then.
    """
    machine = await source.look()
    _require_taps(machine.configuration, wish.taps)
    copy = await source.house.create(wish.name, has_pci=source.kept.has_pci)
    files = _files(source, copy, machine.configuration)
    try:
        async with _paused(source, machine):
            # Later changes are no longer relative to an earlier snapshot.
            source.kept.last_snapshot = None
            await write_down(source, machine.configuration, files)
        await _restore(copy, machine, files, wish)
        await _keep(copy, source, machine, files)
    except BaseException:
        remove(files.all)
        await copy.delete()
        raise


def _require_taps(made: FullVmConfiguration, taps: Sequence[NetworkOverride]) -> None:
    needed = {interface.iface_id for interface in made.network_interfaces or []}
    missing = needed - {tap.iface_id for tap in taps}
    if missing:
        raise ValueError(f"Name a tap device for {', '.join(sorted(missing))}.")


def _files(source: HostedMonitor, copy: HostedMonitor, made: FullVmConfiguration) -> Files:
    state = source.launch.snapshots / f"{source.launch.stem(copy.name)}.state"
    disks = copy.new_disks(drive.drive_id for drive in written(made))
    return Files(state, state.with_suffix(".memory"), disks)


@asynccontextmanager
async def _paused(source: HostedMonitor, machine: Machine) -> AsyncIterator[None]:
    """Pauses a running machine during the block."""
    if machine.state != "Running":
        yield
        return
    await source.control.pause()
    try:
        yield
    finally:
        await source.control.resume()


async def _restore(copy: HostedMonitor, machine: Machine, files: Files, wish: Wish) -> None:
    made, vsock = machine.configuration, copy.launch.vsock(copy.name, copy.kept.uid)
    tracks = made.machine_config is not None and made.machine_config.track_dirty_pages
    memory = MemoryBackend(backend_type="File", backend_path=files.memory)
    given: SnapshotLoadParamsFields = {"snapshot_path": files.state, "mem_backend": memory}
    # A client for an older release lacks some of these members, and refuses them.
    if tracks:
        given["track_dirty_pages"] = True
    if wish.taps:
        given["network_overrides"] = wish.taps
    if made.vsock:
        given["vsock_override"] = VsockOverride(uds_path=vsock)
    await go_on(copy, made, files, SnapshotLoadParams(**given))
    if wish.run:
        await copy.control.resume()


async def _keep(copy: HostedMonitor, source: HostedMonitor, machine: Machine, files: Files) -> None:
    """Lets the clone start again like its source, with metadata, which a snapshot lacks."""
    copy.kept = Kept(
        has_pci=source.kept.has_pci,
        uid=copy.kept.uid,
        configuration=with_disks(machine.configuration, files),
        cpu_config=source.kept.cpu_config,
    )
    with suppress(VmmError):  # no interface gives access to them
        await copy.control.mmds.set(await source.metadata())
    copy.kept.backing = str(files.memory)
    disks = ", ".join(files.disks) or "none"
    detail = "\n".join(SHARED).format(origin=source.name, disks=disks)
    copy.events.add(f"Cloned from {source.name}.", detail=detail)
    await copy.remember()
