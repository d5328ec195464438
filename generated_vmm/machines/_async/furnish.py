"""The calls that make a machine of an empty monitor, and those that read what it has become."""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter
from typing import Final

from generated_vmm import AsyncVmmClient, VmmApiError
from generated_vmm.machines._async.held import AsyncHeld
from generated_vmm.machines.definition import Definition, disks_of, in_order

RESOURCES: Final = {
    "machine_config": "machine_config",
    "cpu_config": "cpu_config",
    "boot_source": "boot_source",
    "drives": "drive",
    "network_interfaces": "network_interface",
    "pmem": "pmem",
    "vsock": "vsock",
    "entropy": "entropy",
    "balloon": "balloon",
    "memory_hotplug": "hotplug_memory",
    "mmds_config": "mmds.config",
}
"""The members of the client for those of a configuration, in the order that a monitor needs."""


async def furnish(vm: AsyncVmmClient, definition: Definition) -> None:
    """Sends the definition to a monitor that has none, without booting it; raises VmmError."""
    made = definition.configuration
    if made.logger is not None:
        await vm.logger.set(made.logger)
    if definition.serial is not None:
        await vm.serial.set(definition.serial)
    for member, name in RESOURCES.items():
        value = getattr(made, member)
        if value is None or (member == "boot_source" and not definition.can_boot):
            continue
        for one in value if isinstance(value, list) else [value]:
            resource = attrgetter(name)(vm)
            ids = [getattr(one, id) for id in one.ids_in_path]
            await (resource(*ids) if ids else resource).set(one)
    if definition.metadata is not None:
        await vm.mmds.set(definition.metadata)


async def shown(held: AsyncHeld, **told: object) -> Definition:
    """The definition with what the monitor shows of a machine that runs, and was `told`.

    A monitor is not trusted: a file that machines may not use raises ValueError.
    """
    record = held.record
    if not held.is_up:
        return record.definition
    before = record.definition.configuration.model_copy(deep=True)
    for name in before.__class__.model_fields.keys() & told.keys():
        setattr(before, name, told.pop(name))
    found = in_order(await held.client.vm_config.get(), before)
    known = {disk.path for disk in disks_of(before)}
    for disk in disks_of(found):
        if disk.path not in known:
            held.options.require_allowed(str(held.store.source(record, disk.path)))
    members: dict[str, object] = {"configuration": found, **told}
    with suppress(VmmApiError):  # no interface gives access to the document
        members["metadata"] = await held.client.mmds.get() or record.definition.metadata
    return record.definition.replace(**members)
