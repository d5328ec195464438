"""A generated package is tried before it is used: imported by a fresh process, and type-checked."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from codegen.document import Unusable

CONFIG = Path(__file__).with_name("mypy_trial.ini")

# Isolated, so that no variable of the environment shows it another package of the name.
IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import generated_vmm
for module in pkgutil.walk_packages(generated_vmm.__path__, "generated_vmm."):
    if not module.name.endswith(".__main__"):
        importlib.import_module(module.name)
"""


def try_out(package: Path, written: Path, cache: Path) -> None:
    """Put a generated package beside a copy of the `written` half and use it.

    Raises `Unusable` when a module of the two cannot be imported, when that gives a warning, or
    when mypy finds a mistake. `cache` keeps what mypy has learnt of other packages.
    """
    with tempfile.TemporaryDirectory(prefix="codegen-") as scratch:
        whole = Path(scratch, written.name)
        ignored = shutil.ignore_patterns("__pycache__", package.name, ".*")
        shutil.copytree(written, whole, ignore=ignored)
        shutil.copytree(package, whole / package.name)
        _run("cannot be imported", "-I", "-W", "error", "-c", IMPORT_ALL, scratch, folder=scratch)
        _run(
            "does not pass mypy", "-m", "mypy", "--config-file", str(CONFIG),
            "--cache-dir", str(cache), "--package", written.name, folder=scratch,
        )  # fmt: skip


def _run(fault: str, *arguments: str, folder: str) -> None:
    done = subprocess.run(  # noqa: S603  # the program and its arguments are ours
        [sys.executable, *arguments],
        cwd=folder,
        env={"MYPYPATH": folder},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())
        raise Unusable(f"the generated package {fault}: {said[-2000:]}")
