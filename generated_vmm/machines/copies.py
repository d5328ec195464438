"""The files and devices of definitions: as they are stored, and of machines made of a memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from os.path import abspath
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from generated_vmm import MemoryBackend, NetworkOverride, SnapshotLoadParams
from generated_vmm.machines.definition import OWN_DISKS, Definition, File, disks_of, with_files
from generated_vmm.machines.records import MachineError, Operation, new_id
from generated_vmm.machines.store import identity

if TYPE_CHECKING:
    from generated_vmm import FullVmConfiguration

STATE, MEMORY = "state", "memory"
"""The files with the state of the devices, and with the memory."""


class CopyOptions(TypedDict, total=False):
    """How a copy differs from its origin.

    `taps` names a tap device for each network interface, which the two cannot share. Without `run`,
    the copy stays paused. Without `renew`, the agent does not give it an identity of its own, and
    is not needed. `by` says who wants it.
    """

    taps: Mapping[str, str]
    run: bool
    renew: bool
    by: str


@dataclass(frozen=True, slots=True)
class Wish:
    """A copy that somebody wants; see `CopyOptions`."""

    name: str
    taps: Mapping[str, str] = field(default_factory=dict)
    run: bool = True
    renew: bool = True
    by: str = ""


def name_of_copy(disk: str) -> str:
    """A new path for a copy of a disk, in the folder of its machine."""
    letters = "".join(each for each in disk if each.isascii() and each.isalnum())[:40]
    return f"{OWN_DISKS}{letters or 'disk'}-{new_id()}"


def written_in_jail(operation: Operation) -> dict[str, str]:
    """Where a jailed monitor writes its state and its memory, until the operation ends."""
    return {name: f"/{name}-{operation.id}" for name in (STATE, MEMORY)}


def own_disks(definition: Definition) -> set[str]:
    """The paths of the disks in the folder of a machine, or of its snapshot.

    Raises `MachineError` if it writes to another disk, which its copy would share.
    """
    disks = disks_of(definition.configuration)
    for disk in disks:
        if disk.path.startswith("/") and not disk.is_read_only:
            raise MachineError(f"{disk.id} is not in the machine's folder: a copy would share it")
    return {disk.path for disk in disks if not disk.path.startswith("/")}


def known_disks(definition: Definition) -> list[str]:
    """The paths of the disks of a machine that no other one uses."""
    return [disk.path for disk in disks_of(definition.configuration) if not disk.is_shared]


def as_stored(
    configuration: FullVmConfiguration, folder: Path, known: Collection[str] = ()
) -> FullVmConfiguration:
    """The configuration with paths that do not depend on this process's folder.

    It has `disks/NAME` for a disk in the machine's folder, however it is named. Paths that are
    `known` as the machine's stay, also if the file is missing for a while. Raises OSError.
    Raises ValueError for a disk without a name, and for two of one name or file.
    Several disks may be one file that nobody writes to.
    """
    own = {identity(path): f"{OWN_DISKS}{path.name}" for path in (folder / OWN_DISKS).iterdir()}

    def path_of(file: File) -> str:
        if file.path in known:
            return file.path
        return own.get(identity(folder / file.path)) or abspath(file.path)

    made = with_files(configuration, path_of)
    names = [drive.drive_id for drive in made.drives or []] + [one.id for one in made.pmem or []]
    for name, count in Counter(names).items():
        if count > 1 or not name:
            raise ValueError(f"each disk needs a name of its own; {name!r} is none")
    disks = [(identity(folder / one.path) or one.path, one) for one in disks_of(made)]
    written = {file for file, disk in disks if not disk.is_read_only}
    uses = Counter(file for file, _ in disks)
    for file, disk in disks:
        if file in written and uses[file] > 1:
            raise ValueError(f"two disks use {disk.path}, and one of them writes to it")
    return made


def of_its_own(origin: Definition, taps: Mapping[str, str]) -> Definition:
    """The definition of a machine that continues from the memory of another one.

    Relative paths lead to its own disks and vsock socket. Raises `MachineError` unless each network
    interface has another tap device.
    """
    made = origin.configuration.model_copy(deep=True)
    interfaces = {one.iface_id: one for one in made.network_interfaces or []}
    if missing := sorted(set(interfaces) - set(taps)):
        raise MachineError(f"name a tap device for {', '.join(missing)}")
    if unknown := sorted(set(taps) - set(interfaces)):
        raise MachineError(f"there is no network interface {', '.join(unknown)}")
    for name, tap in taps.items():
        interfaces[name].host_dev_name = tap
    return origin.replace(configuration=made, taps=(), autostart=False)


def to_load(definition: Definition, taps: Mapping[str, str]) -> SnapshotLoadParams:
    """The request that loads the memory.

    A client for an older release lacks some members, and refuses them: unneeded ones are not set.
    """
    machine = definition.configuration.machine_config
    overrides = [NetworkOverride(iface_id=name, host_dev_name=tap) for name, tap in taps.items()]
    given = {
        "snapshot_path": STATE,
        "mem_backend": MemoryBackend(backend_type="File", backend_path=MEMORY),
        "track_dirty_pages": machine is not None and machine.track_dirty_pages,
        "network_overrides": overrides,
    }
    return SnapshotLoadParams.model_validate({name: it for name, it in given.items() if it})
