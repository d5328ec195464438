"""Memory plugged into the running guest, in blocks, up to a total fixed before the start."""

from __future__ import annotations

from typing import Final

from generated_vmm.testing.description import Json
from generated_vmm.testing.machine import Fault, Machine, Members
from generated_vmm.testing.rule import Call, rule
from generated_vmm.testing.rules.devices import NOT_FOUND

MIN_BLOCK_MIB: Final = 2
MIN_SLOT_MIB: Final = 128
BYTES_PER_MIB: Final = 1 << 20
ADDRESSES: Final = 1 << 64
"""The monitor counts bytes in 64 bits; what is beyond is cut off."""


@rule("PUT /hotplug/memory")
def put_memory_hotplug(machine: Machine, call: Call) -> None:
    """How much there may be, and in which pieces."""
    refusal = _size_refusal(call.body)
    if refusal:
        raise Fault(f"Memory hotplug config error: {refusal}")
    machine.config["memory-hotplug"] = call.body


@rule("GET /hotplug/memory")
def get_memory_hotplug(machine: Machine, call: Call) -> Json:
    """The simulated guest plugs at once what is requested."""
    sizes = dict.fromkeys(("plugged_size_mib", "requested_size_mib"), machine.requested_size_mib)
    return _device(machine, "Internal VMM error") | sizes


@rule("PATCH /hotplug/memory")
def patch_memory_hotplug(machine: Machine, call: Call) -> None:
    """Whole blocks, no more than the total."""
    device = _device(machine, "Memory hotplug update error")
    size = call.body["requested_size_mib"] * BYTES_PER_MIB % ADDRESSES
    block, total = device["block_size_mib"], device["total_size_mib"]
    if size % (block * BYTES_PER_MIB) or size > total * BYTES_PER_MIB:
        raise Fault(
            "Memory hotplug update error: Failed to create memory hotplug device: "
            f"Size {size} is invalid: "
            "it must be a multiple of block size and less than the total size"
        )
    machine.requested_size_mib = size // BYTES_PER_MIB


def _size_refusal(body: Members) -> str:
    total, block, slot = body["total_size_mib"], body["block_size_mib"], body["slot_size_mib"]
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


def _device(machine: Machine, kind: str) -> Members:
    device: Members | None = machine.config["memory-hotplug"]
    if device is None:
        raise Fault(f"{kind}: {NOT_FOUND}")
    return device
