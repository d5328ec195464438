"""Persistent memory: files of the host that the guest maps."""

from __future__ import annotations

from examples.console.changes.change import Item, Panel
from examples.console.changes.devices import Kind, device_changes, tags_of
from examples.console.fields import Field, limits, rare
from examples.console.forms import Section
from examples.console.machine import Machine, pmem_of
from generated_vmm import FullVmConfiguration, PartialPmem, Pmem


def _devices(machine: Machine) -> list[Pmem]:
    return pmem_of(machine.configuration)


def _item(device: Pmem) -> Item:
    tags = tags_of(root=device.root_device, reads=device.read_only, limits=device.rate_limiter)
    return Item(device.id, tags, device.path_on_host)


def _device(machine: Machine, device_id: str) -> Pmem | None:
    return next((one for one in _devices(machine) if one.id == device_id), None)


def _drop(made: FullVmConfiguration, device_id: str) -> None:
    made.pmem = [one for one in pmem_of(made) if one.id != device_id]


PMEM = Section(
    key="pmem",
    title="Persistent memory",
    model=Pmem,
    since=(1, 14),
    fields=(
        Field("id", "Name"),
        Field("path_on_host", "File", places=("disks",), reads_if="read_only"),
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
    ids=lambda machine: [one.id for one in _devices(machine)],
    removable=lambda machine: [one.id for one in _devices(machine) if not one.root_device],
    delete=lambda vm, device_id: vm.pmem(device_id).delete(),
    drop=_drop,
)
PERSISTENT_MEMORY = Panel(
    key="pmems",
    items=lambda machine: [_item(one) for one in _devices(machine)],
    changes=device_changes(KIND),
)
