"""Measuring the same thing at more and more of something, all sizes in turns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tools.benchmarks.curves.pictures import Point
from tools.benchmarks.rounds import Batch, Cost, costs

Place: TypeAlias = tuple[str, float]
"""A line of a picture, and how much there is of what it is drawn over."""

Figures: TypeAlias = Mapping[Place, Cost]


def measured(cases: Mapping[Place, Batch], *, rounds: int, calls: int) -> dict[Place, Cost]:
    """What each case costs; each has a turn in every round."""
    places = {f"{line} at {amount:g}": (line, amount) for line, amount in cases}
    named = {name: cases[place] for name, place in places.items()}
    found = costs(named, rounds=rounds, calls=calls)
    return {place: found[name] for name, place in places.items()}


def quick(cost: Cost) -> float:
    """Microseconds on the clock, of the quickest round.

    What else the machine does makes rounds slower and never faster.
    """
    return min(cost.wall)


def lines(
    figures: Figures, over: Sequence[float], of: Callable[[Cost], float] = quick
) -> dict[str, list[Point]]:
    """The points of each line; what was measured once is drawn over all amounts."""
    drawn: dict[str, list[Point]] = {}
    for (line, amount), cost in figures.items():
        drawn.setdefault(line, []).append((amount, of(cost)))
    return {
        line: points if len(points) > 1 else [(amount, points[0][1]) for amount in over]
        for line, points in drawn.items()
    }


def grown(figures: Figures, line: str) -> float:
    """How many times the time at the smallest amount it takes at the largest."""
    amounts = sorted(amount for name, amount in figures if name == line)
    return ratio(figures[line, amounts[-1]], figures[line, amounts[0]])


def ratio(one: Cost, other: Cost) -> float:
    """How many times the time of the other."""
    return quick(one) / quick(other)


def tell(what: str) -> None:
    """Says on stderr how far it is."""
    print(f"  {what}", file=sys.stderr, flush=True)
