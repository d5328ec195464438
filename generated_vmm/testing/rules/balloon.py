"""The balloon: memory taken back from the guest, its statistics, free page hinting."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Final

from generated_vmm.testing.bodies.devices import (
    Balloon,
    BalloonHinting,
    BalloonStatsUpdate,
    BalloonUpdate,
)
from generated_vmm.testing.json.reader import Json
from generated_vmm.testing.machine import Fault, Machine
from generated_vmm.testing.rules.hotplug import NOT_FOUND

PAGES_PER_MIB: Final = 256
HINTING_DONE: Final = 1


def get_balloon(machine: Machine) -> Json:
    """GET /balloon."""
    if machine.resources.balloon is None and not machine.started:
        raise Fault("Balloon config error: No balloon device found.")
    return asdict(_device(machine, "Internal VMM error"))


def put_balloon(machine: Machine, body: Balloon) -> None:
    """PUT /balloon."""
    if body.amount_mib > machine.resources.machine_config.mem_size_mib:
        raise Fault("Balloon config error: Amount of pages requested is too large.")
    machine.resources = replace(machine.resources, balloon=body)


def patch_balloon(machine: Machine, body: BalloonUpdate) -> None:
    """PATCH /balloon: the simulated guest gives the memory at once."""
    device = _device(machine, "Balloon update error")
    limit = machine.resources.machine_config.mem_size_mib
    if body.amount_mib > limit:
        raise Fault(
            f"Balloon update error: Balloon: Requested memory should be less than {limit}MiB"
        )
    machine.resources = replace(
        machine.resources, balloon=replace(device, amount_mib=body.amount_mib)
    )


def get_statistics(machine: Machine) -> Json:
    """GET /balloon/statistics: sizes, and what the guest's driver reports."""
    device = _device(machine, "Internal VMM error")
    if not device.stats_polling_interval_s:
        raise Fault("Internal VMM error: Balloon: Received stats query when stats are disabled.")
    pages = device.amount_mib * PAGES_PER_MIB
    sizes: dict[str, Json] = {
        "target_pages": pages,
        "actual_pages": pages,
        "target_mib": device.amount_mib,
        "actual_mib": device.amount_mib,
    }
    return sizes | dict(machine.guest.balloon_statistics)


def patch_statistics(machine: Machine, body: BalloonStatsUpdate) -> None:
    """PATCH /balloon/statistics: another interval, but neither on nor off."""
    device = _device(machine, "Balloon update error")
    if bool(device.stats_polling_interval_s) != bool(body.stats_polling_interval_s):
        raise Fault(
            "Balloon update error: Balloon: Statistics cannot be enabled/disabled after activation."
        )
    interval = body.stats_polling_interval_s
    machine.resources = replace(
        machine.resources, balloon=replace(device, stats_polling_interval_s=interval)
    )


def start_hinting(machine: Machine, body: BalloonHinting) -> None:
    """PATCH /balloon/hinting/start: a new run, with a number of its own from 2 on."""
    _require_hinting(machine)
    machine.hinting_runs += 1
    machine.hinting_command = HINTING_DONE + machine.hinting_runs


def get_hinting(machine: Machine) -> Json:
    """GET /balloon/hinting/status: the guest knows nothing before the first run."""
    _require_hinting(machine)
    last_run = HINTING_DONE + machine.hinting_runs if machine.hinting_runs else None
    return {"host_cmd": machine.hinting_command, "guest_cmd": last_run}


def stop_hinting(machine: Machine) -> None:
    """PATCH /balloon/hinting/stop."""
    _require_hinting(machine)
    machine.hinting_command = HINTING_DONE


def _require_hinting(machine: Machine) -> None:
    if not _device(machine, "Balloon update error").free_page_hinting:
        raise Fault("Balloon update error: Balloon: Attempting to use hinting when not enabled")


def _device(machine: Machine, kind: str) -> Balloon:
    if machine.resources.balloon is None:
        raise Fault(f"{kind}: {NOT_FOUND}")
    return machine.resources.balloon
