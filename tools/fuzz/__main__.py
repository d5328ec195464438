"""`python -m tools.fuzz [--seconds 120] [TARGET ...]`: every target in its share of the time."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tools.fuzz.targets import CORPUS, TARGETS

FOUND: Final = Path("build/fuzz")
SLOW: Final = 5
"""Seconds after which an input counts as one that takes too long."""


def main() -> int:
    """0 when nothing was found; an input that was found is in build/fuzz, named for its target."""
    parser = argparse.ArgumentParser(prog="tools.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=120, help="for all targets together")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    options = parser.parse_args()
    names = options.targets or list(TARGETS)
    if unknown := set(names) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    begun, share = time.monotonic(), options.seconds / len(names)
    ends = {name: begun + share * place for place, name in enumerate(names, start=1)}
    failed = [name for name, until in ends.items() if not holds(name, until)]
    print(f"found: {', '.join(failed)}; the inputs are in {FOUND}" if failed else "found nothing")
    return 1 if failed else 0


def holds(name: str, until: float) -> bool:
    """Whether made-up inputs found nothing; what libFuzzer says of a find is printed."""
    grown = FOUND / name
    grown.mkdir(parents=True, exist_ok=True)
    arguments = [
        f"-timeout={SLOW}",
        "-rss_limit_mb=2048",
        "-verbosity=0",
        f"-artifact_prefix={FOUND}/{name}-",
        str(grown),
        str(CORPUS / name),
    ]
    command = [sys.executable, "-m", "tools.fuzz.one", name, str(until), *arguments]
    status = subprocess.run(command).returncode
    print(f"{name}: {'a find' if status else 'holds'}, {len(list(grown.iterdir()))} inputs kept")
    return status == 0


if __name__ == "__main__":
    sys.exit(main())
