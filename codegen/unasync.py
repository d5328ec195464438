"""Derives the sync half of code that is written for tasks: `_async` becomes `_sync`, word by word.

Code that waits differently for threads and for tasks is in `generated_vmm/concurrency`, written
twice under the same names. Add a package in `PACKAGES`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from codegen.document import Unusable

PACKAGES = (
    "binding",
    "facade",
    "guest",
    "machines",
    "process",
    "transport",
)  # folders of generated_vmm that have an `_async`
ASYNC, SYNC = "_async", "_sync"
NOTE = "# Derived from `{}` by `make codegen`. Do not edit.\n"
RULES = {
    r"\basync (?=(def|with|for)\b)": "",
    r"\bawait ": "",
    r"\b_async\b": "_sync",
    r"\bAsync(?=[A-Z])": "",
    r"\basync_(?=[a-z])": "",
    r"\b__a(?=(enter|exit)__)": "__",
    r"\basynccontextmanager\b": "contextmanager",
    r"\bTasks of one event loop\b": "Threads",
}
LEFT = re.compile(r"\bawait\b|async", re.IGNORECASE)


def derive(written: Path, target: Path, packages: Sequence[str] = PACKAGES) -> list[Path]:
    """Write the sync half of these packages of `written` into `target`, not yet formatted.

    Returns the folders made. Raises `Unusable` for a line that no rule makes sync, and for a rule
    that no line needs.
    """
    unused = set(RULES)
    folders = []
    for package in packages:
        folders.append(target / package / SYNC)
        folders[-1].mkdir(parents=True)
        for path in sorted((written / package / ASYNC).glob("*.py")):
            place = path.relative_to(written.parent)
            text = sync_of(path.read_text(encoding="utf-8"), place, unused)
            (folders[-1] / path.name).write_text(text, encoding="utf-8")
    if unused and packages:
        raise Unusable(f"{__file__}: no module needs the rules {sorted(unused)}; remove them")
    return folders


def sync_of(source: str, place: Path, unused: set[str]) -> str:
    """The sync form of a module, line by line; removes the rules that it uses from `unused`."""
    for rule, words in RULES.items():
        source, count = re.subn(rule, words, source)
        if count:
            unused.discard(rule)
    for number, line in enumerate(source.splitlines(), 1):
        if found := LEFT.search(line):
            fault = f"no rule of codegen/unasync.py converts {found[0]!r}"
            raise Unusable(f"{place}:{number}: {fault}; rewrite the line, or add a rule")
    return NOTE.format(place) + source
