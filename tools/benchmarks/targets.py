"""What was aimed at beside what was measured."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One figure and the most that it may be."""

    what: str
    figure: float
    at_most: float
    unit: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the figure is small enough; one that is no number is not."""
        return self.figure <= self.at_most

    @property
    def limit(self) -> str:
        """The most that it may be, with its unit."""
        return f"at most {self.at_most:g}{self.unit and ' '}{self.unit}"

    def __str__(self) -> str:
        verdict = "met" if self.is_met else "MISSED"
        return f"{verdict:<8}{self.figure:8.2f}   {self.limit:<18} {self.what}"


def report(targets: Sequence[Target]) -> int:
    """Prints the table and, on stderr, what was missed; the exit status: 0 when nothing was."""
    print("\nTargets:")
    for target in targets:
        print(f"  {target}")
    missed = [target.what for target in targets if not target.is_met]
    if missed:
        print(f"Missed {len(missed)} of {len(targets)}: {'; '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0
