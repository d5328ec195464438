"""Where and when something was measured."""

from __future__ import annotations

import math
import os
import platform
from datetime import UTC, datetime
from pathlib import Path


def show_machine() -> None:
    """Prints the day, the machine, its load and the Python."""
    print(machine())


def machine() -> str:
    """The day, the machine, its load and the Python."""
    day = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    load = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{day}, {_processor()}, {os.cpu_count()} cores, {load}, {python}"


def processor_seconds(pid: int) -> float:
    """What a process has used of the processors; NaN where the system does not say."""
    described = Path(f"/proc/{pid}/stat")
    if not described.exists():
        return math.nan
    user, system = described.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
