"""Measuring several ways to do a thing side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

Batch = Callable[[int], None]
"""Does the thing that many times."""


def medians(cases: Mapping[str, Batch], *, rounds: int, calls: int) -> dict[str, float]:
    """Microseconds of processor time per call: medians over rounds in which all cases take turns.

    Taking turns spreads what else the machine does evenly over the cases; waiting for a processor
    does not count.
    """
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, batch in cases.items():
            began = time.process_time()
            batch(calls)
            times[name].append((time.process_time() - began) / calls * 1e6)
    return {name: statistics.median(taken) for name, taken in times.items()}


def repeated(function: Callable[[], object]) -> Batch:
    """The batch that calls `function`."""

    def batch(calls: int) -> None:
        for _ in range(calls):
            function()

    return batch
