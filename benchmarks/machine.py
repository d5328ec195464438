"""Where and when something was measured."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path


def show_machine() -> None:
    """Prints the day, the machine, its load and the Python."""
    day = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    load = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    print(f"{day}, {_processor()}, {os.cpu_count()} cores, {load}, {python}")


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
