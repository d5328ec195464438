"""What `import` takes, in processes of their own, beside peers."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.benchmarks.figures import Figure

ROUNDS: Final = 11
_BYTECODE: Final = Path("build") / "bytecode"
PROGRAM: Final = """
import time
began = time.perf_counter()
{statement}
print(time.perf_counter() - began)
"""
OURS, PEER, FASTAPI = "import fastapi_oidc", "import auth0_fastapi", "import fastapi"
MONITOR, HTTPX = "import generated_vmm", "import httpx, pydantic"
STATEMENTS: Final = {
    OURS: "import fastapi_oidc",
    PEER: "import auth0_fastapi.auth.auth_client",
    FASTAPI: "import fastapi",
    MONITOR: "from generated_vmm import AsyncVmmClient, VmmClient",
    HTTPX: "import httpx\nfrom pydantic import BaseModel, TypeAdapter",
}


def figures() -> Iterator[Figure]:
    """Milliseconds of wall time in a fresh process, medians of rounds in turns."""
    taken: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for statement in STATEMENTS.values():
        import_time(statement)  # writes the bytecode
    for _ in range(ROUNDS):
        for name, statement in STATEMENTS.items():
            taken[name].append(import_time(statement))
    for name, times in taken.items():
        yield Figure(name, statistics.median(times), "ms")
    fastapi, ours, peer = (statistics.median(taken[name]) for name in (FASTAPI, OURS, PEER))
    reason = f"Beside FastAPI ours takes {ours - fastapi:.0f} ms, the peer {peer - fastapi:.0f} ms."
    ratios = [mine / its for mine, its in zip(taken[OURS], taken[PEER], strict=True)]
    yield Figure(f"{OURS} / auth0_fastapi", statistics.median(ratios), "", 1.0, reason)


def import_time(statement: str) -> float:
    """Milliseconds until the statement is done, with bytecode cached as in an installed package."""
    command = [sys.executable, "-c", PROGRAM.format(statement=statement)]
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(_BYTECODE.absolute())}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout) * 1000
