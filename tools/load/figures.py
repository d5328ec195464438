"""How many responses, how fast, and how large the workers are."""

from __future__ import annotations

import math
import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.load.rules import Rule, Verdict

MIB: Final = 1 << 20
PERCENTS: Final = (50, 95, 99)
FLAT_MIB: Final = 32.0
"""What a worker may grow by after it has settled; a leak goes on, and passes this in a soak."""
SETTLED_AFTER: Final = 15.0
"""Seconds after which a worker has imported and remembered what it always needs."""


class Latencies:
    """The seconds of each answer, by its kind."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))

    def note(self, kind: str, seconds: float) -> None:
        """One more answer."""
        self._seconds[kind].append(seconds)

    def rows(self, duration: float) -> Iterator[str]:
        """A line for each kind: the count, how many a second, and percentiles in milliseconds."""
        heads = "".join(f"{f'p{percent}':>9}" for percent in PERCENTS)
        yield f"{'':<24}{'count':>9}{'a second':>11}{heads}   milliseconds"
        for kind, seconds in sorted(self._seconds.items()):
            ordered = sorted(seconds)
            each = "".join(f"{1000 * percentile(ordered, of):9.1f}" for of in PERCENTS)
            yield f"{kind:<24}{len(ordered):9}{len(ordered) / duration:11.1f}{each}"

    @property
    def count(self) -> int:
        """All answers."""
        return sum(map(len, self._seconds.values()))


def percentile(ordered: list[float], percent: int) -> float:
    """The smallest value that so many percent are not above (nearest rank)."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


@dataclass(slots=True)
class _Size:
    seen: float
    start: float | None = None
    end: float = math.nan


class Memory:
    """The resident memory of each worker process, from when it has settled to its end."""

    def __init__(self, size_of: Callable[[int], float | None] | None = None) -> None:
        self._size_of = size_of or resident_mib
        self._sizes: dict[tuple[str, int], _Size] = {}

    def sample(self, pids: Mapping[str, int | None], now: float) -> None:
        """Looks at the processes that there are at the moment `now`, in seconds."""
        for name, pid in pids.items():
            size = None if pid is None else self._size_of(pid)
            if pid is None or size is None:
                continue
            known = self._sizes.setdefault((name, pid), _Size(now))
            known.end = size
            if known.start is None and now - known.seen >= SETTLED_AFTER:
                known.start = size

    def judge(self, verdict: Verdict) -> None:
        """Holds each process against the rule."""
        for (name, pid), size in self._sizes.items():
            if size.start is not None and size.end - size.start > FLAT_MIB:
                what = f"{name} (process {pid}) grew from {size.start:.0f} to {size.end:.0f} MiB"
                verdict.broken(Rule.FLAT_MEMORY, what)

    def rows(self) -> Iterator[str]:
        """A line for each process."""
        settled = f"after {SETTLED_AFTER:.0f} s"
        yield f"{'Memory, MiB':<24}{'process':>9}{settled:>12}{'end':>9}"
        for (name, pid), size in sorted(self._sizes.items()):
            start = "-" if size.start is None else f"{size.start:.1f}"
            yield f"{name:<24}{pid:9}{start:>12}{size.end:9.1f}"


def resident_mib(pid: int) -> float | None:
    """What a process occupies of the machine's memory; None when it is gone, or not known."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return None
    # Of one that has ended and that nobody waited for there is nothing left.
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB or None
