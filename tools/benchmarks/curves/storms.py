"""Sessions that expire at once, over how many they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tools.benchmarks.curves.growth import tell
from tools.benchmarks.curves.pictures import Lines
from tools.benchmarks.oidc_redis import PROGRAM
from tools.benchmarks.oidc_storm import REQUESTS, Storm, Weathered, weathered
from tools.benchmarks.targets import Target

EXPIRED: Final = (100, 300, 1000)
DELAY: Final = 0.2
TIMEOUT: Final = 5.0
AT_ONCE: Final = 32
"""Refreshes that one process has under way."""
MODES: Final = (("cookie", 1), ("memory", 1), ("redis store and lock", 2))
LEAST: Final = f"the provider's time alone, {AT_ONCE} at once"
GROWS_AT_MOST: Final = 1.2
"""Times as much as the sessions do: ten times the sessions may take twelve times as long."""


def storms_over_sessions(amounts: tuple[int, ...] = EXPIRED) -> Lines:
    """Lets each storm pass once."""
    passed = {
        f"ours, {mode}, {'one process' if processes == 1 else f'{processes} processes'}": [
            _passed(Storm(mode, processes, DELAY, TIMEOUT, sessions)) for sessions in amounts
        ]
        for mode, processes in MODES
        if PROGRAM or "redis" not in mode
    }
    seconds = {line: [came.seconds for came in storms] for line, storms in passed.items()}
    seconds[LEAST] = [sessions * DELAY / AT_ONCE for sessions in amounts]
    return Lines(
        title="A storm: sessions whose access tokens are all over at once",
        x="sessions",
        y=f"seconds until all {REQUESTS} requests of each are answered",
        lines=_over(amounts, seconds),
        beside={
            "seconds of the longest request": _over(
                amounts, {line: [came.held for came in storms] for line, storms in passed.items()}
            ),
            "answers that were a 503 with Retry-After first": _over(
                amounts, {line: [came.later for came in storms] for line, storms in passed.items()}
            ),
        },
        note=f"One storm each. The provider takes {DELAY:g} s for a token call and makes every "
        "refresh token good once; one token call for each session.",
        targets=[each for line, storms in passed.items() for each in _targets(line, storms)],
    )


def _passed(storm: Storm) -> Weathered:
    tell(f"{storm.sessions} sessions, {storm}")
    return weathered(storm)


def _over(
    amounts: Sequence[int], lines: Mapping[str, Sequence[float]]
) -> dict[str, list[tuple[float, float]]]:
    return {line: list(zip(amounts, figures, strict=True)) for line, figures in lines.items()}


def _targets(line: str, storms: Sequence[Weathered]) -> list[Target]:
    """That nothing goes wrong, and that many sessions take not much more than their share."""
    few, most = storms[0], storms[-1]
    wrong = sum(came.wrong for came in storms)
    sessions = f"{most.storm.sessions:,} / {few.storm.sessions:,} sessions"
    grown = most.seconds / few.seconds
    limit = GROWS_AT_MOST * most.storm.sessions / few.storm.sessions
    return [
        Target(f"storms, wrong answers and token calls: {line}", wrong, 0),
        Target(f"storms, seconds of {sessions}: {line}", grown, limit),
    ]
