"""Sessions that expire at once, over how many they are."""

from __future__ import annotations

from typing import Final

from benchmarks.curves.growth import tell
from benchmarks.curves.pictures import Lines, Point
from benchmarks.oidc_redis import PROGRAM
from benchmarks.oidc_storm import REQUESTS, Storm, weathered
from benchmarks.targets import Target

EXPIRED: Final = (100, 300, 1000)
DELAY: Final = 0.2
TIMEOUT: Final = 5.0
AT_ONCE: Final = 32
"""Refreshes that one process has under way."""
MODES: Final = (("cookie", 1), ("memory", 1), ("redis store and lock", 2))
LEAST: Final = f"the provider's time alone, {AT_ONCE} at once"


def storms_over_sessions(amounts: tuple[int, ...] = EXPIRED) -> Lines:
    """Lets each storm pass once."""
    drawn: dict[str, list[Point]] = {}
    targets = []
    for mode, processes in MODES:
        if "redis" in mode and PROGRAM is None:
            continue
        for sessions in amounts:
            storm = Storm(mode, processes, DELAY, TIMEOUT, sessions)
            tell(f"{sessions} sessions, {storm}")
            came = weathered(storm)
            workers = "one process" if processes == 1 else f"{processes} processes"
            drawn.setdefault(f"ours, {mode}, {workers}", []).append((sessions, came.seconds))
            name = f"wrong answers and token calls, {sessions} sessions, {mode}"
            targets.append(Target(name, came.wrong, 0))
    drawn[LEAST] = [(sessions, sessions * DELAY / AT_ONCE) for sessions in amounts]
    return Lines(
        title="A storm: sessions whose access tokens are all over at once",
        x="sessions",
        y=f"seconds until all {REQUESTS} requests of each are answered",
        lines=drawn,
        note=f"One storm each. The provider takes {DELAY:g} s for a token call and makes every "
        "refresh token good once; one token call for each session.",
        targets=targets,
    )
