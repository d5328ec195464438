"""Persistent memory: files of the host that the guest maps."""

from __future__ import annotations

from examples.console.changes.change import Item, Panel
from examples.console.changes.devices import Kind, by_id, device_changes, ids_of, tags_of
from examples.console.fields import Field, limits, rare
from examples.console.forms import Section
from examples.console.machine import Machine, pmem_of
from generated_vmm import PartialPmem, Pmem


def _devices(machine: Machine) -> list[Pmem]:
    return pmem_of(machine.configuration)


def _items(machine: Machine) -> list[Item]:
    return [Item(one.id, tags_of(one), one.path_on_host) for one in _devices(machine)]


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
    current=by_id(_devices, "id"),
    about={"device id in use": "id", "backing file": "path_on_host", "root device": "root_device"},
)
LIMITS = Section(
    key="pmem_limits",
    title="Limits",
    model=PartialPmem,
    since=(1, 16),
    fields=(Field("id", "Name", kind="item"), *limits("rate_limiter", "flushed")),
    send=lambda vm, fields: vm.pmem(str(fields["id"])).update(fields),
    current=by_id(_devices, "id"),
)
KIND = Kind(
    name="pmem",
    id_name="id",
    section=PMEM,
    limits=LIMITS,
    ids=ids_of(_devices, "id"),
    removable=ids_of(_devices, "id", "root_device"),
    delete=lambda vm, device_id: vm.pmem(device_id).delete(),
)
PERSISTENT_MEMORY = Panel(key="pmems", items=_items, changes=device_changes(KIND))
