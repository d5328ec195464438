"""GET /vm/config: everything at once, with null for what is not there."""

from __future__ import annotations

from dataclasses import asdict

from .boot import get_machine_config
from .json_reader import Json
from .machine import Machine


def get_full_config(machine: Machine) -> Json:
    """GET /vm/config. The CPU template, logger and metrics are never shown."""
    return {
        "balloon": None,
        "drives": [asdict(drive) for drive in machine.drives],
        "boot-source": asdict(machine.boot_source),
        "cpu-config": None,
        "logger": None,
        "machine-config": get_machine_config(machine),
        "metrics": None,
        "mmds-config": None,
        "network-interfaces": [],
        "pmem": [],
        "vsock": None,
        "entropy": None,
        "memory-hotplug": None,
    }
