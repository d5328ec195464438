"""Fifty connections on two workers, as a picture."""

from __future__ import annotations

from typing import Final

from tools.benchmarks.curves.pictures import Panels
from tools.benchmarks.oidc_served import (
    CONNECTIONS,
    ROUNDS,
    SECONDS,
    WORKERS,
    compared,
    median,
    served,
)

NOTE: Final = (
    f"{CONNECTIONS} connections on {WORKERS} uvicorn workers, medians of {ROUNDS} turns of "
    f"{SECONDS:g} s; the load comes from a third process on the same cores. A worker serves all of "
    "them; what they hold at the start is frozen, so that no request waits for its collection."
)


def fifty_connections() -> Panels:
    """Measures what every application bears."""
    loads = served(rounds=ROUNDS, seconds=SECONDS)
    borne = {name: median(each) for name, each in loads.items()}
    return Panels(
        title="A signed-in request under load",
        panels={
            "answers a second": {name: each.rate for name, each in borne.items()},
            "p99, ms": {name: each.p99 for name, each in borne.items()},
            "processor, µs for each": {name: each.cpu for name, each in borne.items()},
        },
        note=NOTE,
        beside={
            "processor of Redis, µs for each": {name: each.redis for name, each in borne.items()}
        },
        targets=list(compared(loads)),
    )
