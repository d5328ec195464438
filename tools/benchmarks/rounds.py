"""Measuring several ways to do a thing side by side.

Taking turns spreads what else the machine does evenly over the cases, and a ratio is taken within
each round, so that a slow moment makes both of its sides slow.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random

Batch = Callable[[int], None]
"""Does the thing that many times."""

ELSEWHERE_BYTES = 48 * 2**20
CACHE_LINE_BYTES = 64


class Cost:
    """Microseconds of wall time for one call, round by round."""

    def __init__(self, rounds: Sequence[float] = ()) -> None:
        self.rounds = list(rounds)

    @property
    def median(self) -> float:
        """Half of the rounds took less time than this."""
        return statistics.median(self.rounds)

    def ratio(self, other: Cost, *, beyond: Cost | None = None) -> float:
        """How many times the other's time: the median over the rounds.

        With `beyond`, what both take more than that: its time is subtracted on both sides.
        """
        base = beyond.rounds if beyond else [0.0] * len(self.rounds)
        rounds = zip(self.rounds, other.rounds, base, strict=True)
        return statistics.median(
            (mine - floor) / (theirs - floor) for mine, theirs, floor in rounds
        )

    def above(self, floor: Cost) -> Cost:
        """What each round took more than the same round of `floor`."""
        rounds = zip(self.rounds, floor.rounds, strict=True)
        return Cost([mine - theirs for mine, theirs in rounds])


def costs(
    cases: Mapping[str, Batch],
    *,
    rounds: int,
    calls: int,
    before: Callable[[], object] = lambda: None,
) -> dict[str, Cost]:
    """What each case costs; in every round each has a turn, in another order.

    So none always comes after the same other one, whose code and data fill the caches. `before` is
    called before each turn and not measured.
    """
    order, names = Random(0), list(cases)
    measured = {name: Cost() for name in cases}
    for batch in cases.values():
        batch(1)
    for _ in range(rounds):
        order.shuffle(names)
        for name in names:
            before()
            began = time.perf_counter()
            cases[name](calls)
            measured[name].rounds.append((time.perf_counter() - began) / calls * 1e6)
    return measured


def cold(cases: Mapping[str, Batch], *, rounds: int) -> dict[str, Cost]:
    """What one call costs when the processor's caches are full of something else."""
    elsewhere = bytearray(ELSEWHERE_BYTES)
    return costs(cases, rounds=rounds, calls=1, before=lambda: elsewhere[::CACHE_LINE_BYTES])


def repeated(function: Callable[[], object]) -> Batch:
    """The batch that calls `function`."""

    def batch(calls: int) -> None:
        for _ in range(calls):
            function()

    return batch


def awaited(runner: asyncio.Runner, function: Callable[[], Awaitable[object]]) -> Batch:
    """The batch that awaits `function` in the runner's loop."""

    async def calls_in_a_row(calls: int) -> None:
        for _ in range(calls):
            await function()

    return lambda calls: runner.run(calls_in_a_row(calls))
