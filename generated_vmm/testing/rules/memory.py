"""Memory of a running guest: the balloon, and hotplugged blocks."""

from __future__ import annotations

from typing import Final

from generated_vmm.misuse import require_options
from generated_vmm.testing.description import Json
from generated_vmm.testing.machine import MIB, Fault, Machine
from generated_vmm.testing.resources import NOT_FOUND, stored
from generated_vmm.testing.rule import Call, action, check

PAGES_PER_MIB: Final = 256
ADDRESSES: Final = 1 << 64
"""The monitor counts bytes in 64 bits; higher bits are cut off."""
HINTING_STOPPED: Final = 0
HINTING_DONE: Final = 1
NO_BALLOON: Final = "Balloon update error: "
NO_HOTPLUG: Final = "Memory hotplug update error: "


@check("PUT /balloon")
def require_amount(machine: Machine, amount_mib: int) -> None:
    """Refuse a balloon that is larger than the memory."""
    if amount_mib > machine.value("/machine-config", "mem_size_mib", amount_mib):
        raise Fault("Balloon config error: Amount of pages requested is too large.")


@check("GET /balloon", "GET /balloon/statistics", "GET /hotplug/memory")
def require_device_to_show(machine: Machine, call: Call) -> None:
    """Refuse to show a device that does not exist."""
    refusal = f"Internal VMM error: {NOT_FOUND}"
    if not machine.started:
        refusal = "Balloon config error: No balloon device found."
    stored(machine, call, refusal)


@check(
    "PATCH /balloon",
    "PATCH /balloon/statistics",
    "PATCH /balloon/hinting/start",
    "GET /balloon/hinting/status",
    "PATCH /balloon/hinting/stop",
)
def require_balloon(machine: Machine, call: Call) -> None:
    """Refuse to change a balloon that does not exist."""
    stored(machine, call, f"{NO_BALLOON}{NOT_FOUND}")


@check("PATCH /balloon/hinting/start", "GET /balloon/hinting/status", "PATCH /balloon/hinting/stop")
def require_hinting(machine: Machine) -> None:
    """Refuse hinting that was not enabled with the balloon."""
    if not machine.value("/balloon", "free_page_hinting", False):
        raise Fault(f"{NO_BALLOON}Balloon: Attempting to use hinting when not enabled")


@check("PATCH /balloon", "PATCH /balloon/hinting/start", "PATCH /balloon/hinting/stop")
def require_balloon_driver(machine: Machine) -> None:
    """Refuse calls that need the guest's driver before it is up."""
    if not machine.drivers_up:
        raise Fault(f"{NO_BALLOON}Balloon: Device not activated yet.")


@check("PATCH /balloon")
def require_less_than_memory(machine: Machine, amount_mib: int) -> None:
    """Refuse a balloon larger than the memory with hotpluggable memory."""
    if amount_mib > (machine.memory_mib or amount_mib):
        raise Fault(f"{NO_BALLOON}Balloon: Requested memory should be less than {amount_mib}MiB")


@check("GET /balloon/statistics")
def require_statistics(machine: Machine) -> None:
    """Refuse statistics that are not enabled by an interval."""
    if not machine.value("/balloon", "stats_polling_interval_s", 0):
        raise Fault("Internal VMM error: Balloon: Received stats query when stats are disabled.")


@action("GET /balloon/statistics")
def get_statistics(machine: Machine, call: Call) -> Json:
    """Show sizes and the statistics of the guest's driver."""
    known = machine.options.description.fields(call.operation.answer)
    require_options(machine.guest.balloon_statistics, known)
    target, actual = machine.value("/balloon", "amount_mib", 0), machine.balloon_actual_mib
    sizes: dict[str, Json] = {
        "target_pages": target * PAGES_PER_MIB,
        "actual_pages": actual * PAGES_PER_MIB,
        "target_mib": target,
        "actual_mib": actual,
    }
    return sizes | dict(machine.guest.balloon_statistics)


@check("PATCH /balloon/statistics")
def leave_statistics_on_or_off(machine: Machine, stats_polling_interval_s: int) -> None:
    """Allow another interval, but neither enable nor disable statistics."""
    known = machine.value("/balloon", "stats_polling_interval_s", 0)
    if bool(known) != bool(stats_polling_interval_s):
        raise Fault(f"{NO_BALLOON}Balloon: Statistics cannot be enabled/disabled after activation.")


@action("PATCH /balloon/hinting/start")
def start_hinting(machine: Machine, acknowledge_on_stop: bool = True) -> None:
    """Begin a run with a number of its own, which the guest ends immediately.

    The monitor acknowledges the end if `acknowledge_on_stop` is true.
    """
    machine.hinting_runs += 1
    run = HINTING_DONE + machine.hinting_runs
    machine.hinting_command = HINTING_DONE if acknowledge_on_stop else run


@action("GET /balloon/hinting/status")
def get_hinting(machine: Machine) -> Json:
    """Show the last commands; the guest has none before the first run and after a stopped one."""
    said = HINTING_STOPPED if machine.hinting_runs else None
    return {"host_cmd": machine.hinting_command, "guest_cmd": said}


@action("PATCH /balloon/hinting/stop")
def stop_hinting(machine: Machine) -> None:
    """End the run."""
    machine.hinting_command = HINTING_DONE


@check("PUT /hotplug/memory")
def require_sizes(total_size_mib: int, block_size_mib: int, slot_size_mib: int) -> None:
    """Refuse sizes that do not fit each other."""
    total, block, slot = total_size_mib, block_size_mib, slot_size_mib
    rules = (
        (block < 2, "Block size must not be lower than 2 MiB"),
        (block & (block - 1), "Block size must be a power of 2"),
        (slot < 128, "Slot size must not be lower than 128 MiB"),
        (slot % (block or 1), f"Slot size must be a multiple of block size ({block} MiB)"),
        (total < slot, f"Total size must not be lower than slot size ({slot} MiB)"),
        (total % (slot or 1), f"Total size must be a multiple of slot size ({slot} MiB)"),
    )
    for is_broken, words in rules:
        if is_broken:
            raise Fault(f"Memory hotplug config error: {words}")


@action("GET /hotplug/memory")
def get_memory_hotplug(machine: Machine, call: Call) -> Json:
    """Show the device and the memory that the guest has plugged."""
    sizes = dict.fromkeys(("plugged_size_mib", "requested_size_mib"), machine.plugged_mib)
    return stored(machine, call, NOT_FOUND) | sizes


@action("PATCH /hotplug/memory")
def plug_memory(machine: Machine, call: Call, requested_size_mib: int) -> None:
    """Plug whole blocks up to the total, once the guest's driver is up."""
    device = stored(machine, call, f"{NO_HOTPLUG}{NOT_FOUND}")
    refusal = f"{NO_HOTPLUG}Failed to create memory hotplug device: "
    if not machine.drivers_up:
        raise Fault(f"{refusal}Device is not active")
    size = requested_size_mib * MIB % ADDRESSES
    block, total = device.get("block_size_mib", 1), device.get("total_size_mib", ADDRESSES)
    if size % (block * MIB) or size > total * MIB:
        raise Fault(
            f"{refusal}Size {size} is invalid: "
            "it must be a multiple of block size and less than the total size"
        )
    machine.plugged_mib = size // MIB
