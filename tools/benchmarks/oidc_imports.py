"""What importing the package costs beside its peers, in processes of its own."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Final

from tools.benchmarks.targets import Target
from tools.benchmarks.vmm_imports import import_time

ROUNDS: Final = 9
FASTAPI: Final = "import fastapi"
OURS: Final = "fastapi_oidc, after fastapi"
CASES: Final = {
    "fastapi, alone": ("", FASTAPI),
    OURS: (FASTAPI, "import fastapi_oidc"),
    "auth0_fastapi, after fastapi": (FASTAPI, "import auth0_fastapi.auth.auth_client"),
    "fastapi_users, after fastapi": (
        FASTAPI,
        "import fastapi_users, fastapi_users.authentication",
    ),
    "authlib's Starlette client, after fastapi": (
        FASTAPI,
        "import authlib.integrations.starlette_client",
    ),
}


def oidc_import_targets() -> Iterator[Target]:
    """Measures imports, shows the figures and says what was aimed at."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in CASES}
    for _ in range(ROUNDS):
        for name, (before, statement) in CASES.items():
            taken[name].append(import_time(before, statement))
    print(f"\nImports, ms, medians of {ROUNDS} processes:{'wall':>18}{'CPU':>8}")
    wall = {}
    for name, times in taken.items():
        wall[name], cpu = (statistics.median(each) for each in zip(*times, strict=True))
        print(f"  {name:<50}{wall[name]:8.1f}{cpu:8.1f}")
    dearest = max(wall[name] for name in CASES if "after" in name and name != OURS)
    yield Target("importing fastapi_oidc / the dearest peer", wall[OURS] / dearest, 1)
