"""Memory plugged into the running guest, in blocks, up to a total fixed before the start."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from generated_vmm.testing.bodies.devices import MemoryHotplug, MemoryHotplugUpdate
from generated_vmm.testing.json.reader import Json
from generated_vmm.testing.machine import Fault, Machine
from generated_vmm.testing.rules.hotplug import NOT_FOUND

MIN_BLOCK_MIB: Final = 2
MIN_SLOT_MIB: Final = 128
BYTES_PER_MIB: Final = 1 << 20


def put_memory_hotplug(machine: Machine, body: MemoryHotplug) -> None:
    """PUT /hotplug/memory."""
    refusal = _size_refusal(body)
    if refusal:
        raise Fault(f"Memory hotplug config error: {refusal}")
    machine.resources = replace(machine.resources, memory_hotplug=body)


def get_memory_hotplug(machine: Machine) -> Json:
    """GET /hotplug/memory: the simulated guest plugs at once what is requested."""
    device = _device(machine, "Internal VMM error")
    return {
        "block_size_mib": device.block_size_mib,
        "total_size_mib": device.total_size_mib,
        "slot_size_mib": device.slot_size_mib,
        "plugged_size_mib": machine.requested_size_mib,
        "requested_size_mib": machine.requested_size_mib,
    }


def patch_memory_hotplug(machine: Machine, body: MemoryHotplugUpdate) -> None:
    """PATCH /hotplug/memory: whole blocks, no more than the total."""
    device = _device(machine, "Memory hotplug update error")
    size = body.requested_size_mib
    if size % device.block_size_mib or size > device.total_size_mib:
        raise Fault(
            "Memory hotplug update error: Failed to create memory hotplug device: "
            f"Size {size * BYTES_PER_MIB} is invalid: "
            "it must be a multiple of block size and less than the total size"
        )
    machine.requested_size_mib = size


def _size_refusal(body: MemoryHotplug) -> str:
    total, block, slot = body.total_size_mib, body.block_size_mib, body.slot_size_mib
    if block < MIN_BLOCK_MIB:
        return f"Block size must not be lower than {MIN_BLOCK_MIB} MiB"
    if block & (block - 1):
        return "Block size must be a power of 2"
    if slot < MIN_SLOT_MIB:
        return f"Slot size must not be lower than {MIN_SLOT_MIB} MiB"
    if slot % block:
        return f"Slot size must be a multiple of block size ({block} MiB)"
    if total < slot:
        return f"Total size must not be lower than slot size ({slot} MiB)"
    if total % slot:
        return f"Total size must be a multiple of slot size ({slot} MiB)"
    return ""


def _device(machine: Machine, kind: str) -> MemoryHotplug:
    if machine.resources.memory_hotplug is None:
        raise Fault(f"{kind}: {NOT_FOUND}")
    return machine.resources.memory_hotplug
