"""The mutants that no test noticed, and those of which it is written why none need be."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.mutation.areas import REPOSITORY
from tools.mutation.differences import Difference, differences

EXPLAINED: Final = Path(__file__).with_name("explained.toml")
REFUSED: Final = "without a test that pytest finds"
"""What is nobody's kill: pytest knew a test of the function by another name and ran none."""
_STATES: Final[Mapping[int | None, str]] = {
    None: "not played",
    2: "not played",  # stopped while its tests ran
    0: "survived",
    5: "survived",  # no test was found
    33: "survived",  # no test runs the function
    255: REFUSED,
}
"""mutmut's exit statuses; every other is a kill: a failure, a crash, a test that never ends."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why changes of one function may go unnoticed: each of `added` in place of `removed`."""

    module: str
    function: str
    removed: str
    added: tuple[str, ...]
    reason: str

    def speaks_of(self, difference: Difference) -> bool:
        """Whether this change is one of those that were explained."""
        place = (difference.module, difference.function, "\n".join(difference.removed))
        is_here = place == (self.module, self.function, self.removed)
        return is_here and "\n".join(difference.added) in self.added


@dataclass(slots=True)
class Results:
    """What came of the mutants of a run."""

    counts: Counter[str]
    unexplained: list[Difference]

    @property
    def is_of_any_mutant(self) -> bool:
        """Whether there was time for at least one mutant."""
        return any(state != "not played" for state in self.counts)


def explanations(text: str) -> list[Explanation]:
    """The list in `explained.toml`."""
    entries = tomllib.loads(text).get("survivor", [])
    return [Explanation(**{**entry, "added": tuple(entry["added"])}) for entry in entries]


def pruned(text: str) -> str:
    """The same file without explanations of lines that the code no longer has."""
    head, *entries = re.split(r"(?m)^(?=\[\[survivor\]\]$)", text)
    return head + "".join(entry for entry in entries if _is_of_present_code(*explanations(entry)))


def _is_of_present_code(known: Explanation) -> bool:
    module = REPOSITORY / known.module
    if not module.exists():
        return False
    lines = {line.strip() for line in ast.unparse(ast.parse(module.read_text())).splitlines()}
    lines |= {line.partition("(")[2] for line in lines if "def " in line}
    return set(known.removed.splitlines()) <= lines


def results(workplace: Path, chosen: list[str], known: list[Explanation]) -> Results:
    """Counts the mutants of these modules by state, from what mutmut left in its folder."""
    found = Results(Counter(), [])
    for module in chosen:
        for status, difference in _played(workplace / "mutants", module):
            state = _STATES.get(status, "killed")
            if not difference.removed and not difference.added:
                state = "the same"
            elif state == "survived" and any(each.speaks_of(difference) for each in known):
                state = "explained"
            elif state == "survived":
                found.unexplained.append(difference)
            found.counts[state] += 1
    return found


def _played(mutants: Path, module: str) -> Iterator[tuple[int | None, Difference]]:
    """Exit status and change of each mutant of a module; None for one that was not reached."""
    record = mutants / f"{module}.meta"
    if not record.exists():  # a module in which there is nothing to change
        return
    changes = differences(module, (mutants / module).read_text())
    for name, status in json.loads(record.read_text())["exit_code_by_key"].items():
        yield status, changes[name.rpartition(".")[2]]
