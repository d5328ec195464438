"""Is everything green for another description? Tried in copies of the project, one at a time.

Without files it is tried for every release that is at hand, for an older one and for one newer than
any of them.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.releases import renames
from tests.vmm.codegen.descriptions import ROOT, published, write
from tests.vmm.codegen.releases import before, release_1_17

# What a fresh checkout has beside its files: what was installed into it.
INSTALLED = (".venv", "tests/node_modules")
CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("codegen", "--check"),
)
TESTS = ("tests/vmm", "tests/console", "tests/typing")
# What a description changes most, in a minute: for every change of the project. The generation
# before them checks the types of the client and the console.
QUICK_TESTS = (
    *("tests/vmm/facade/test_members.py", "tests/vmm/facade/test_boot.py"),
    "tests/vmm/models/test_model.py",
    *("tests/console/test_demo.py", "tests/console/test_every_form.py"),
)
# Releases that can be had without their files: SPEC may be one of the names.
MADE: dict[str, Callable[[], dict[str, Any]]] = {
    "older": partial(before, "1.14.4"),
    "newer": release_1_17,
}
LIMIT = 3600  # seconds for one command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 1 when something is not green."""
    parser = argparse.ArgumentParser(prog="python -m tests.releases", description=__doc__)
    parser.add_argument("specs", nargs="*", type=Path, metavar="SPEC")
    parser.add_argument("--tests", nargs="+", metavar="PATH")
    parser.add_argument("--quick", action="store_true", help="only what takes a minute")
    parser.add_argument(
        "--renames",
        nargs="*",
        metavar="WORD",
        help="try every rename of one field instead, or those whose names have a word (20 minutes)",
    )
    options = parser.parse_args(arguments)
    if options.renames is not None:
        return renames.main(options.renames)
    with tempfile.TemporaryDirectory(prefix="releases-") as scratch:
        made = {name: write(shape(), Path(scratch), name) for name, shape in MADE.items()}
        specs = [made.get(str(spec), spec) for spec in options.specs]
        specs = specs or [*published(), *made.values()]
        checks, tests = ((), QUICK_TESTS) if options.quick else (CHECKS, TESTS)
        tests = options.tests or tests
        results = [is_green(spec.absolute(), checks, tests) for spec in specs]
    return 0 if all(results) else 1


def is_green(spec: Path, checks: Sequence[tuple[str, ...]], tests: Sequence[str]) -> bool:
    """Whether a copy of the project passes with the client of this description."""
    with tempfile.TemporaryDirectory(prefix="releases-") as scratch:
        copy = Path(scratch, "project")
        _copy_files(copy)
        commands = [
            ("codegen", "--spec", str(spec)),
            *checks,
            ("pytest", "-q", "--numprocesses", "2", *tests),
        ]
        return False not in [_passes(spec.stem, command, copy) for command in commands]


def _copy_files(copy: Path) -> None:
    """The files that git knows or would add, and links to what is installed beside them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    for name in INSTALLED:
        if (ROOT / name).exists():
            (copy / name).symlink_to((ROOT / name).resolve())


def _passes(release: str, command: tuple[str, ...], copy: Path) -> bool:
    """Whether a command ends well in the copy, whose modules come before installed ones."""
    began = time.monotonic()
    done = subprocess.run(  # the commands are those above
        [sys.executable, "-m", *command],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    verdict = "green" if done.returncode == 0 else "NOT GREEN"
    print(
        f"{release}: {' '.join(command)}: {verdict}, {time.monotonic() - began:.0f} s", flush=True
    )
    if done.returncode:
        print((done.stdout + done.stderr)[-20_000:])
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
