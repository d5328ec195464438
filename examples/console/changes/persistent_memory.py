"""Persistent memory: files of the host that the guest maps."""

from __future__ import annotations

from examples.console.changes.change import Item, Panel
from examples.console.changes.devices import Kind, device_changes
from examples.console.fields import Field, limits, rare
from examples.console.forms import Section
from examples.console.machine import Machine, pmem_of
from generated_vmm import PartialPmem, Pmem


def _devices(machine: Machine) -> list[Pmem]:
    return pmem_of(machine.configuration)


def _ids(machine: Machine) -> list[str]:
    return [device.id for device in _devices(machine)]


def _not_root(machine: Machine) -> list[str]:
    return [device.id for device in _devices(machine) if not device.root_device]


def _device(machine: Machine, device_id: str) -> Pmem | None:
    return next((one for one in _devices(machine) if one.id == device_id), None)


def _items(machine: Machine) -> list[Item]:
    return [Item(one.id, _tags(one), one.path_on_host) for one in _devices(machine)]


def _tags(device: Pmem) -> list[str]:
    tags = {
        "root": device.root_device,
        "read only": device.read_only,
        "limited": device.rate_limiter,
    }
    return [tag for tag, true in tags.items() if true]


PMEM = Section(
    key="pmem",
    title="Persistent memory",
    model=Pmem,
    since=(1, 14),
    fields=(
        Field("id", "Name"),
        Field("path_on_host", "File", places=("disks",)),
        Field("read_only", "Read only", kind="flag"),
        *rare(
            (
                Field("root_device", "The guest boots from it", kind="flag"),
                *limits("rate_limiter", "flushed"),
            )
        ),
    ),
    send=lambda vm, fields: vm.pmem(str(fields["id"])).set(fields),
    current=_device,
    about={"device id in use": "id", "backing file": "path_on_host", "root device": "root_device"},
)
LIMITS = Section(
    key="pmem_limits",
    title="Limits",
    model=PartialPmem,
    since=(1, 16),
    fields=(Field("id", "Name", kind="item"), *limits("rate_limiter", "flushed")),
    send=lambda vm, fields: vm.pmem(str(fields["id"])).update(fields),
    current=_device,
)
KIND = Kind(
    name="pmem",
    id_name="id",
    section=PMEM,
    limits=LIMITS,
    ids=_ids,
    removable=_not_root,
    delete=lambda vm, device_id: vm.pmem(device_id).delete(),
)
PERSISTENT_MEMORY = Panel(key="pmems", items=_items, changes=device_changes(KIND))
