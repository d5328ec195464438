"""Simulated monitors as processes: all workers show the same ones by their sockets."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from examples.console.demo import samples
from examples.fleet.program import Program

RUNNING, FRESH = "demo", "fresh"


def monitors(folder: Path, environment: dict[str, str]) -> list[Program]:
    """One with a running machine, and an empty one to try everything with."""
    files = samples(folder)
    configuration = folder / "demo.json"
    machine = _machine(files["boot_source.kernel_image_path"], files["root_drive.path_on_host"])
    configuration.write_text(json.dumps(machine))
    booted = ["--config-file", str(configuration)]
    return [
        _monitor(RUNNING, folder, environment, booted),
        _monitor(FRESH, folder, environment, []),
    ]


def socket_of(folder: Path, name: str) -> Path:
    """Where the monitor of that name listens."""
    return folder / f"{name}.socket"


def _monitor(name: str, folder: Path, environment: dict[str, str], arguments: list[str]) -> Program:
    address = socket_of(folder, name)
    module = [sys.executable, "-m", "examples.console.simulated"]
    return Program(
        f"monitor {name}",
        [*module, "--id", name, "--api-sock", str(address), "--level", "Warn", *arguments],
        folder,
        address=address,
        environment=environment,
    )


def _machine(kernel: str, disk: str) -> dict[str, object]:
    """The content of a monitor's configuration file."""
    drive = {"drive_id": "rootfs", "path_on_host": disk, "is_root_device": True}
    balloon = {"amount_mib": 0, "deflate_on_oom": True, "stats_polling_interval_s": 1}
    return {
        "boot-source": {"kernel_image_path": kernel},
        "drives": [drive],
        "machine-config": {"vcpu_count": 2, "mem_size_mib": 512},
        "balloon": balloon,
    }
