"""Devices that come and go while the guest runs: the rules drives, pmem and network share."""

from __future__ import annotations

from typing import Final

from generated_vmm.testing.machine import Fault, Machine

NOT_FOUND: Final = "Failed perform action on device: Device not found"


def require_hotplug(machine: Machine) -> None:
    """Refuse to add or remove a device of a running guest without `enable_pci`."""
    if not machine.options.enable_pci:
        raise Fault("PCI is not enabled")


def require_new(machine: Machine, known_ids: list[str], device_id: str) -> None:
    """Refuse to plug a device in under an id that is taken."""
    require_hotplug(machine)
    if device_id in known_ids:
        raise Fault("Device ID in use")


def require_removable(machine: Machine, known_ids: list[str], device_id: str) -> None:
    """Refuse to unplug what is not there."""
    require_hotplug(machine)
    if device_id not in known_ids:
        raise Fault("Device not found")


def refuse_root() -> Fault:
    """The refusal to unplug the device the guest lives on."""
    return Fault("Cannot unplug root device")
