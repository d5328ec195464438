"""What is printed of a load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tools.load.causes import NO_ANSWER
from tools.load.rules import Rule
from tools.load.run import Outcome


def lines(outcome: Outcome) -> Iterator[str]:
    """Figures first, then what went wrong on purpose, then the rules."""
    site = outcome.site
    yield from site.latencies.rows(outcome.seconds)
    total = site.latencies.count
    yield f"{total} answers in {outcome.seconds:.1f} s: {total / outcome.seconds:.1f} a second"
    yield f"{site.tokens.total} refreshes\n"
    yield from outcome.memory.rows()
    if outcome.faults:
        yield "\nFaults, and the failures that they explain:"
        yield from _faults(outcome)
        yield f"  {site.lost} sessions and logins ended since an answer of the provider was lost"
    yield "\nRules:"
    for rule in Rule:
        count = site.verdict.breaches[rule]
        yield f"  {'holds' if not count else f'BROKEN {count} times':<18}{rule}"
    yield from (f"    {example}" for example in site.verdict.examples)


def _faults(outcome: Outcome) -> Iterator[str]:
    for name, times in Counter(outcome.faults).items():
        explained = outcome.site.causes.explained.items()
        costs = [
            f"{count} x {_told(status)}" for (cause, status), count in explained if cause == name
        ]
        yield f"  {times} x {name}: {', '.join(costs) or 'nothing'}"


def _told(status: int) -> str:
    return "no answer" if status == NO_ANSWER else str(status)
