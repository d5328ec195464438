"""What a machine is made of that continues from the memory of another one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from os.path import abspath
from typing import TYPE_CHECKING, Final, TypeAlias

from generated_vmm import MemoryBackend, NetworkOverride, SnapshotLoadParams, VsockOverride
from generated_vmm.machines.definition import (
    OWN_DISKS,
    Definition,
    disks_of,
    with_files,
)
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.records import new_id

if TYPE_CHECKING:
    from generated_vmm import FullVmConfiguration, SnapshotLoadParamsFields

VSOCK: Final = "vsock.socket"
STATE, MEMORY = "state", "memory"
"""The files with the state of the devices, and with the memory."""
Taps: TypeAlias = Mapping[str, str]
"""The tap device for each network interface, by its name."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A copy that somebody wants: whether it runs then, with an identity that the agent renews."""

    name: str
    by: str
    taps: Taps
    run: bool
    renew: bool


def name_of_copy(disk: str) -> str:
    """A new path for a copy of a disk, in the folder of its machine or snapshot."""
    letters = "".join(each for each in disk if each.isascii() and each.isalnum())[:40]
    return f"{OWN_DISKS}{letters or 'disk'}-{new_id()}"


def copies_of(definition: Definition) -> dict[str, str]:
    """The paths for copies of the disks that a machine does not share; its own keep theirs."""
    return {
        disk.id: name_of_copy(disk.id) if disk.path.startswith("/") else disk.path
        for disk in disks_of(definition.configuration)
        if not disk.is_shared
    }


def with_absolute_files(
    configuration: FullVmConfiguration, own: Collection[str] = ()
) -> FullVmConfiguration:
    """The configuration with paths that do not depend on this process's folder, except `own`."""
    return with_files(
        configuration, lambda file: file.path if file.path in own else abspath(file.path)
    )


def of_its_own(origin: Definition, copies: Mapping[str, str], taps: Taps) -> Definition:
    """The definition of a machine that continues from the memory of another one.

    It has its own disks, tap devices and vsock socket. Raises `MachineError` if it cannot have.
    """
    made = with_files(origin.configuration, lambda file: copies.get(file.id, file.path))
    interfaces = made.network_interfaces or []
    names = {one.iface_id for one in interfaces}
    if missing := sorted(names - set(taps)):
        raise MachineError(f"name a tap device for {', '.join(missing)}")
    if unknown := sorted(set(taps) - names):
        raise MachineError(f"there is no network interface {', '.join(unknown)}")
    for interface in interfaces:
        interface.host_dev_name = taps[interface.iface_id]
    shared = {one.id for one in origin.configuration.pmem or [] if one.path_on_host[:1] == "/"}
    if shared & set(copies):
        raise MachineError("a monitor cannot replace the file of persistent memory")
    if made.vsock is not None and made.vsock.uds_path.startswith("/"):
        made.vsock.uds_path = VSOCK
    return origin.replace(configuration=made, taps=(), autostart=False)


def to_load(definition: Definition, origin: Definition, taps: Taps) -> SnapshotLoadParams:
    """The request that loads the memory.

    A client for an older release lacks some members, and refuses them: unneeded ones are not set.
    """
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
