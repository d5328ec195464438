"""Figures beside those of peers and their targets: `python -m tools.benchmarks [SECTION ...]`.

`--keep` writes them into docs/benchmarks/figures.txt.
`--before FOLDER` measures the libraries of another checkout, too. Real monitors are asked with
FIRECRACKER_BIN. Exits with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.benchmarks.figures import Figure, machine, of_targets, table

REPOSITORY: Final = Path(__file__).parents[2]
KEPT: Final = REPOSITORY / "docs" / "benchmarks" / "figures.txt"
LIBRARIES: Final = ("fastapi_oidc", "generated_vmm")
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
        before = figures_of(section, asked.before) if asked.before else []
        figures = figures_of(section, REPOSITORY)
        measured += figures
        print(shown := table(SECTIONS[section], figures, before))
        every += f"\n{shown}"
    print(summary := of_targets(measured))
    if asked.keep:
        KEPT.write_text(f"{every}\n{summary}")
    return int(any(figure.is_missed for figure in measured))


def figures_of(section: str, checkout: Path) -> list[Figure]:
    """What a process measures that imports the libraries of `checkout` and these tools."""
    print(f"{section}, {checkout}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        for name in LIBRARIES:
            Path(folder, name).symlink_to(checkout.resolve() / name)
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tools.benchmarks.section", section],
            env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{REPOSITORY}"},
            stdout=subprocess.PIPE,
            text=True,
        )
    if done.returncode:
        sys.exit(f"{section} failed with the libraries of {checkout}")
    return [Figure.from_json(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
