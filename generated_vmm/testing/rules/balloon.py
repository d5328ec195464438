"""The balloon: memory taken back from the guest, its statistics, free page hinting."""

from __future__ import annotations

from typing import Final

from generated_vmm.testing.description import Json
from generated_vmm.testing.machine import Fault, Machine, Members
from generated_vmm.testing.rule import Call, rule
from generated_vmm.testing.rules.devices import NOT_FOUND

PAGES_PER_MIB: Final = 256
HINTING_STOPPED: Final = 0
HINTING_DONE: Final = 1


@rule("GET /balloon")
def get_balloon(machine: Machine, call: Call) -> Json:
    """The settings of the balloon."""
    if machine.config["balloon"] is None and not machine.started:
        raise Fault("Balloon config error: No balloon device found.")
    return _device(machine, "Internal VMM error")


@rule("PUT /balloon")
def put_balloon(machine: Machine, call: Call) -> None:
    """The balloon may be as large as the memory."""
    if call.body["amount_mib"] > machine.config["machine-config"]["mem_size_mib"]:
        raise Fault("Balloon config error: Amount of pages requested is too large.")
    machine.config["balloon"] = call.body


@rule("PATCH /balloon")
def patch_balloon(machine: Machine, call: Call) -> None:
    """The guest gives the memory as soon as it runs; memory that can be hotplugged counts."""
    device, amount = _device(machine, "Balloon update error"), call.body["amount_mib"]
    if amount > machine.memory_mib:
        raise Fault(
            f"Balloon update error: Balloon: Requested memory should be less than {amount}MiB"
        )
    device["amount_mib"] = amount
    machine.settle()


@rule("GET /balloon/statistics")
def get_statistics(machine: Machine, call: Call) -> Json:
    """Sizes, and what the guest's driver reports."""
    device, actual = _device(machine, "Internal VMM error"), machine.balloon_actual_mib
    if not device["stats_polling_interval_s"]:
        raise Fault("Internal VMM error: Balloon: Received stats query when stats are disabled.")
    sizes: dict[str, Json] = {
        "target_pages": device["amount_mib"] * PAGES_PER_MIB,
        "actual_pages": actual * PAGES_PER_MIB,
        "target_mib": device["amount_mib"],
        "actual_mib": actual,
    }
    return sizes | dict(machine.guest.balloon_statistics)


@rule("PATCH /balloon/statistics")
def patch_statistics(machine: Machine, call: Call) -> None:
    """Another interval, but neither on nor off."""
    device = _device(machine, "Balloon update error")
    interval = call.body["stats_polling_interval_s"]
    if bool(device["stats_polling_interval_s"]) != bool(interval):
        raise Fault(
            "Balloon update error: Balloon: Statistics cannot be enabled/disabled after activation."
        )
    device["stats_polling_interval_s"] = interval


@rule("PATCH /balloon/hinting/start")
def start_hinting(machine: Machine, call: Call) -> None:
    """A new run with a number of its own, which the guest ends at once.

    The monitor says that it has seen the end when it may (`acknowledge_on_stop`).
    """
    _require_hinting(machine)
    machine.hinting_runs += 1
    acknowledges = call.body["acknowledge_on_stop"]
    machine.hinting_command = HINTING_DONE if acknowledges else HINTING_DONE + machine.hinting_runs


@rule("GET /balloon/hinting/status")
def get_hinting(machine: Machine, call: Call) -> Json:
    """The guest has said nothing before the first run, and after one that it has stopped."""
    _require_hinting(machine)
    said = HINTING_STOPPED if machine.hinting_runs else None
    return {"host_cmd": machine.hinting_command, "guest_cmd": said}


@rule("PATCH /balloon/hinting/stop")
def stop_hinting(machine: Machine, call: Call) -> None:
    """End the run."""
    _require_hinting(machine)
    machine.hinting_command = HINTING_DONE


def _require_hinting(machine: Machine) -> None:
    if not _device(machine, "Balloon update error")["free_page_hinting"]:
        raise Fault("Balloon update error: Balloon: Attempting to use hinting when not enabled")


def _device(machine: Machine, kind: str) -> Members:
    device: Members | None = machine.config["balloon"]
    if device is None:
        raise Fault(f"{kind}: {NOT_FOUND}")
    return device
