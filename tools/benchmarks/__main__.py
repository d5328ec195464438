"""Figures beside those of peers and their targets: `python -m tools.benchmarks [SECTION ...]`.

`--keep` writes them into docs/benchmarks/figures.txt.
`--before FOLDER` measures another checkout, too, by its own tools and in its `.venv` if it has one;
what it cannot measure is left out. Real monitors are asked with FIRECRACKER_BIN. Exits with 1 when
a target is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.benchmarks.figures import Figure, machine, of_targets, table

REPOSITORY: Final = Path(__file__).parents[2]
KEPT: Final = REPOSITORY / "docs" / "benchmarks" / "figures.txt"
SECTIONS: Final = {
    "requests": "A signed-in request",
    "refreshes": "A request that refreshes",
    "storms": "1,000 sessions expire at once, 10 requests each",
    "broker": "A guest's call by the broker",
    "memory": "Memory of a live session",
    "imports": "Imports",
    "monitors": "A call to a monitor",
    "guest": "Programs and files in a guest",
}
"""Module -> title."""


def main() -> int:
    """Measures section after section, each in a process of its own; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks", description=__doc__)
    parser.add_argument("--keep", action="store_true", help=f"write them into {KEPT.name}")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="another checkout")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    asked = parser.parse_args()
    if unknown := set(asked.sections) - set(SECTIONS):
        parser.error(f"no section: {', '.join(sorted(unknown))}")
    measured: list[Figure] = []
    print(every := f"Measured {machine()}.\n")
    for section in asked.sections or SECTIONS:
        before = (figures_of(section, asked.before.resolve()) if asked.before else None) or []
        figures = figures_of(section, REPOSITORY)
        if figures is None:
            sys.exit(1)
        measured += figures
        print(shown := table(SECTIONS[section], figures, before))
        every += f"\n{shown}"
    print(summary := of_targets(measured))
    if asked.keep:
        KEPT.write_text(f"{every}\n{summary}")
    return int(any(figure.is_missed for figure in measured))


def figures_of(section: str, checkout: Path) -> list[Figure] | None:
    """What the libraries and tools of `checkout` measure; None if they cannot."""
    print(f"{section}, {checkout}", file=sys.stderr)
    own = checkout / ".venv" / "bin" / "python"
    done = subprocess.run(
        [own if own.exists() else sys.executable, "-P", "-m", "tools.benchmarks.section", section],
        env=os.environ | {"PYTHONPATH": str(checkout)},
        cwd=checkout,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        print(f"{checkout} cannot measure {section}", file=sys.stderr)
        return None
    return [Figure.from_json(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
