"""Everything that is measured, and one table of targets: `python -m tools.benchmarks [--keep]`.

With FIRECRACKER_BIN real monitors are asked, too. Exits with 1 when a target was missed, and says
which.
"""

from __future__ import annotations

import argparse
import os
import sys

from tools.benchmarks.figures import BENCH, FOLDER, keep, write_pages
from tools.benchmarks.machine import machine
from tools.benchmarks.oidc import oidc_targets
from tools.benchmarks.targets import report
from tools.benchmarks.vmm import vmm_targets


def main() -> int:
    """Measures everything and prints it; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks")
    parser.add_argument("--keep", action="store_true", help=f"the targets, in {FOLDER}")
    asked, place = parser.parse_args(), machine()
    print(place)
    targets = [*vmm_targets(os.environ.get("FIRECRACKER_BIN", "")), *oidc_targets()]
    if asked.keep:
        keep(BENCH, {"title": "`make bench`"}, targets, place, FOLDER)
        write_pages()
    return report(targets)


if __name__ == "__main__":
    sys.exit(main())
