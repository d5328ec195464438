# Derived from `generated_vmm/machines/_async/furnish.py` by `make codegen`. Do not edit.
"""The calls that make a machine of an empty monitor, and those that read what it has become."""

from __future__ import annotations

from contextlib import suppress

from generated_vmm import FullVmConfiguration, VmmApiError, VmmClient
from generated_vmm.machines._sync.operation import Control
from generated_vmm.machines.definition import Definition, disks_of, in_order
from generated_vmm.machines.records import MachineRecord


def furnish(vm: VmmClient, definition: Definition) -> None:
    """Sends the definition to a monitor that has none, without booting it; raises VmmError.

    The outlets come first, memory before the balloon, and interfaces before MMDS.
    """
    made = definition.configuration
    if made.logger is not None:
        vm.logger.set(made.logger)
    if definition.serial is not None:
        vm.serial.set(definition.serial)
    if made.machine_config is not None:
        vm.machine_config.set(made.machine_config)
    if made.cpu_config is not None:
        vm.cpu_config.set(made.cpu_config)
    if definition.can_boot and made.boot_source is not None:
        vm.boot_source.set(made.boot_source)
    _add_devices(vm, made)
    if made.balloon is not None:
        vm.balloon.set(made.balloon)
    if made.memory_hotplug is not None:
        vm.hotplug_memory.set(made.memory_hotplug)
    if made.mmds_config is not None:
        vm.mmds.config.set(made.mmds_config)
    if definition.metadata is not None:
        vm.mmds.set(definition.metadata)


def _add_devices(vm: VmmClient, made: FullVmConfiguration) -> None:
    for drive in made.drives or []:
        vm.drive(drive.drive_id).set(drive)
    for interface in made.network_interfaces or []:
        vm.network_interface(interface.iface_id).set(interface)
    for device in made.pmem or []:
        vm.pmem(device.id).set(device)
    if made.vsock is not None:
        vm.vsock.set(made.vsock)
    if made.entropy is not None:
        vm.entropy.set(made.entropy)


def remember(control: Control, record: MachineRecord, **told: object) -> MachineRecord:
    """Stores what the monitor shows of a machine that runs, and was `told`, for its next start.

    A monitor is not trusted: a file that machines may not use raises ValueError.
    """
    monitor = control.monitors.get(record.id)
    if monitor is None or not monitor.running:
        return record
    vm = control.monitors.require(record.id, record.name)
    before = record.definition.configuration.model_copy(deep=True)
    for name in before.__class__.model_fields.keys() & told.keys():
        setattr(before, name, told.pop(name))
    shown = in_order(vm.vm_config.get(), before)
    known = {disk.path for disk in disks_of(before)}
    for disk in disks_of(shown):
        if disk.path not in known:
            control.options.require_allowed(str(control.store.source(record, disk.path)))
    members: dict[str, object] = {"configuration": shown, **told}
    with suppress(VmmApiError):  # no interface gives access to the document
        members["metadata"] = vm.mmds.get() or record.definition.metadata
    definition = record.definition.replace(**members)
    if definition == record.definition:
        return record
    return control.change(record, definition=definition)
