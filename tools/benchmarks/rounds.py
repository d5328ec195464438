"""Measuring several ways to do a thing side by side.

Taking turns spreads what else the machine does evenly over the cases, and a ratio is taken within
each round, so that a slow moment makes both of its sides slow.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

Batch = Callable[[int], None]
"""Does the thing that many times."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds for one call, round by round: on the clock, and of this process's processor."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def measure(self, batch: Batch, calls: int) -> None:
        """One more round."""
        clock, processor = time.perf_counter(), time.process_time()
        batch(calls)
        self.cpu.append((time.process_time() - processor) / calls * 1e6)
        self.wall.append((time.perf_counter() - clock) / calls * 1e6)

    @property
    def median_wall(self) -> float:
        """Half of the rounds took less time than this."""
        return statistics.median(self.wall)

    @property
    def median_cpu(self) -> float:
        """Half of the rounds took less of the processor than this."""
        return statistics.median(self.cpu)

    def wall_ratio(self, other: Cost) -> float:
        """How many times the other's time: the median over the rounds."""
        return statistics.median(a / b for a, b in zip(self.wall, other.wall, strict=True))

    def cpu_ratio(self, other: Cost) -> float:
        """How many times the other's processor time, over all rounds: single ones are coarse."""
        return sum(self.cpu) / sum(other.cpu)


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
            measured[name].measure(cases[name], calls)
    return measured


def repeated(function: Callable[[], object]) -> Batch:
    """The batch that calls `function`."""

    def batch(calls: int) -> None:
        for _ in range(calls):
            function()

    return batch
