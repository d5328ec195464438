"""What importing the package costs, in processes of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator

from tools.benchmarks.targets import Target

ROUNDS = 15
PYDANTIC = "from pydantic import BaseModel, RootModel, TypeAdapter, GetCoreSchemaHandler"
MEASURED = """
import json, time
{before}
clock, processor = time.perf_counter(), time.process_time()
{statement}
print(json.dumps([time.perf_counter() - clock, time.process_time() - processor]))
"""
OURS = "import generated_vmm, after httpx and pydantic"
CASES = {
    "python -c pass": ("", "pass"),
    "httpx and pydantic": ("", f"import httpx\n{PYDANTIC}"),
    OURS: (f"import httpx\n{PYDANTIC}", "import generated_vmm"),
    "the same and AsyncVmmClient": (
        f"import httpx\n{PYDANTIC}",
        "from generated_vmm import AsyncVmmClient",
    ),
    "generated_vmm, alone": ("", "import generated_vmm"),
    "aiohttp, alone": ("", "import aiohttp"),
    "requests_unixsocket, alone": ("", "import requests_unixsocket"),
}


def import_targets() -> Iterator[Target]:
    """Measures imports, shows the figures and says what was aimed at."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in CASES}
    for _ in range(ROUNDS):
        for name, (before, statement) in CASES.items():
            taken[name].append(import_time(before, statement))
    print(f"\nImports, ms, medians of {ROUNDS} processes:{'wall':>18}{'CPU':>8}")
    for name, times in taken.items():
        wall, cpu = (statistics.median(each) for each in zip(*times, strict=True))
        print(f"  {name:<50}{wall:8.1f}{cpu:8.1f}")
    own = statistics.median(wall for wall, _ in taken[OURS])
    yield Target(OURS, own, 30, "ms")


def import_time(before: str, statement: str) -> tuple[float, float]:
    """Milliseconds on the clock and of the processor for a statement in a fresh process."""
    program = MEASURED.format(before=before, statement=statement)
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    wall, cpu = json.loads(done.stdout)
    return wall * 1e3, cpu * 1e3
