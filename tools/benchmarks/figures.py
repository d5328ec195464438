"""One measured figure, and the table that shows figures beside what was aimed at."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured; `at_most` is its target, and `reason` says why it is missed if it is."""

    what: str
    value: float
    unit: str
    at_most: float | None = None
    reason: str = ""

    @property
    def is_missed(self) -> bool:
        """Whether there is a target and the value is above it; NaN is above every target."""
        return self.at_most is not None and not self.value <= self.at_most

    def to_json(self) -> str:
        """One line that `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """The figure that `to_json` wrote."""
        return cls(**json.loads(line))


def table(title: str, figures: Sequence[Figure], before: Sequence[Figure] = ()) -> str:
    """A Markdown table; `before` are the figures of another version, found by their names."""
    now, earlier = ({each.what: each for each in every} for every in (figures, before))
    head = [title, "Measured", *(["Before"] if before else []), "Target"]
    rows = [
        [
            name,
            _readable(now.get(name)),
            *([_readable(earlier.get(name))] if before else []),
            _target(now.get(name)),
        ]
        for name in now | earlier
    ]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "".join(_line(row, widths) for row in [head, rule, *rows])


def of_targets(figures: Sequence[Figure]) -> str:
    """How many targets are missed, and a Markdown list of these with their reasons."""
    targets = [figure for figure in figures if figure.at_most is not None]
    missed = [figure for figure in targets if figure.is_missed]
    lines = [f"{len(missed)} of {len(targets)} targets missed{':' if missed else '.'}", ""]
    lines += [
        f"- {figure.what}: {_readable(figure)}, target {_limit(figure)}. "
        f"{figure.reason or 'The reason is not known.'}"
        for figure in missed
    ]
    return "\n".join([*lines, ""])


def machine() -> str:
    """The time, processor, number of cores, load and Python version."""
    day = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.machine()
    load = f"load {os.getloadavg()[0]:.1f}"
    return f"{day}, {processor}, {os.cpu_count()} cores, {load}, Python {platform.python_version()}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cells[0].ljust(widths[0])]
    padded += [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
    return f"| {' | '.join(padded)} |\n"


def _readable(figure: Figure | None) -> str:
    if figure is None:
        return "not measured"
    if isinstance(figure.value, int):
        return f"{figure.value:,} {figure.unit}".rstrip()
    digits = 2 if abs(figure.value) < 10 else 1 if abs(figure.value) < 100 else 0
    return f"{figure.value:,.{digits}f} {figure.unit}".rstrip()


def _target(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return f"{_limit(figure)}: **missed**" if figure.is_missed else _limit(figure)


def _limit(figure: Figure) -> str:
    return "" if figure.at_most is None else f"at most {figure.at_most:g} {figure.unit}".rstrip()
