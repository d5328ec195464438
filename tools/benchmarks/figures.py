"""The figures that pages of the documentation show: `python -m tools.benchmarks.figures`.

Writes what stands in them between `<!-- figures: NAME -->` and `<!-- figures end -->` anew, from
the JSON of docs/benchmarks. `make curves` and `make bench KEEP=1` do so when they have measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tools.benchmarks.targets import Target

FOLDER: Final = Path("docs/benchmarks")
PAGES: Final = (FOLDER / "index.md", Path("docs/scaling.md"))
BENCH: Final = "bench"
"""What `make bench` keeps its targets under: the last one, and what a picture has is left out."""

_BLOCK: Final = re.compile(
    r"(<!-- figures: (?P<name>[a-z-]+) -->\n).*?(<!-- figures end -->\n)", re.DOTALL
)
_MICROSECONDS: Final = 1_000_000

Kept = Mapping[str, Any]
"""What one JSON holds: title, machine, targets, and the figures of its picture."""


def keep(name: str, figures: Kept, targets: Sequence[Target], machine: str, folder: Path) -> None:
    """Writes FOLDER/NAME.json; `machine` says where and when."""
    judged = [asdict(target) | {"met": target.is_met} for target in targets]
    kept = {**figures, "targets": judged, "machine": machine}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def write_pages() -> None:
    """Every page says what was measured last."""
    for page in PAGES:
        page.write_text(rewritten(page.read_text(), FOLDER))


def rewritten(text: str, folder: Path) -> str:
    """The text of a page with the figures of this folder; raises KeyError for an unknown name."""
    return _BLOCK.sub(lambda it: f"{it[1]}\n{BLOCKS[it['name']](folder)}\n{it[3]}", text)


def targets_of(kept: Kept) -> list[Target]:
    """What was aimed at, as it was kept."""
    names = ("what", "figure", "at_most", "unit")
    return [Target(**{name: target[name] for name in names}) for target in kept["targets"]]


def _all(folder: Path) -> Iterator[tuple[str, Kept]]:
    """Every JSON by its name, that of `make bench` last."""
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.stem == BENCH, path.stem)):
        yield path.stem, json.loads(path.read_text())


def _targets(folder: Path) -> str:
    """Every target of every JSON; one that came out the same twice stands once."""
    seen: set[tuple[str, bool]] = set()
    rows: list[str] = []
    for name, kept in _all(folder):
        new = [each for each in targets_of(kept) if (each.what, each.is_met) not in seen]
        seen |= {(each.what, each.is_met) for each in new}
        if new:
            rows.append(f"| **[{kept['title']}]({name}.json)**, {kept['machine']} | | |")
            rows += map(_row, new)
    missed = [f"- {what}\n" for what, is_met in sorted(seen) if not is_met]
    head = [f"Of {len(seen)} targets {len(missed)} are **missed**:\n\n", *missed, "\n"]
    table = ["| | Measured | Aimed at |\n", "|---|---|---|\n", *(f"{row}\n" for row in rows)]
    return "".join([*head, *table])


def _row(target: Target) -> str:
    figure = f"{target.figure:.2f}{target.unit and ' '}{target.unit}"
    return f"| {target.what} | {figure} | {target.limit}{'' if target.is_met else ': **missed**'} |"


def _served(folder: Path) -> str:
    """What a request takes of the workers' processor, dearest last."""
    kept = _kept(folder, "fifty-connections")
    took = sorted(kept["panels"]["processor, µs for each"].items(), key=lambda each: each[1])
    redis = kept["beside"]["processor of Redis, µs for each"]
    return _table(
        ["A request", "Processor time", "Requests in a second of one core", "Redis' own time"],
        [
            [
                name,
                f"{cpu:.0f} µs",
                f"{round(_MICROSECONDS / cpu, -2):,.0f}",
                f"{redis[name]:.0f} µs",
            ]
            for name, cpu in took
        ],
        kept,
    )


def _sizes(folder: Path) -> str:
    """What a session takes, by its size."""
    kept = _kept(folder, "memory-of-a-session")
    lines = {line: dict(points) for line, points in kept["lines"].items()}
    over = list(lines["ours, memory"])
    return _table(
        ["A session of", *(f"{size:,} bytes" for size in over)],
        [[line, *(f"{taken[size]:.1f} kB" for size in over)] for line, taken in lines.items()],
        kept,
    )


def _storms(folder: Path) -> str:
    """What people see of the largest storm of each kind."""
    kept = _kept(folder, "storms")
    shown = {kept["y"]: kept["lines"], **kept["beside"]}
    lines = next(iter(kept["beside"].values()))
    most = max(sessions for points in lines.values() for sessions, _ in points)
    return _table(
        [f"{most:,} sessions", *shown],
        [
            [line, *(f"{_readable(dict(of[line])[most])}" for of in shown.values())]
            for line in lines
        ],
        kept,
    )


def _logins(folder: Path) -> str:
    """What one process completes when many sign in."""
    kept = _kept(folder, "where-a-login-goes")
    beside = kept["beside"]
    names = next(iter(beside.values()))
    return _table(
        ["", *beside],
        [[name, *(f"{_readable(of[name])}" for of in beside.values())] for name in names],
        kept,
    )


def _readable(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _kept(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], kept: Kept) -> str:
    """A table, and where and when its figures were measured."""
    lines = [head, ["---"] * len(head), *rows]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    return f"{table}\nMeasured {kept['machine']}.\n"


BLOCKS: Final[Mapping[str, Callable[[Path], str]]] = {
    "targets": _targets,
    "served": _served,
    "sizes": _sizes,
    "storms": _storms,
    "logins": _logins,
}

if __name__ == "__main__":
    write_pages()
