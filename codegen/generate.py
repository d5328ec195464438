"""The tools that are run: the generator with our templates, ruff, and a trial of what they made."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from codegen.describe import for_generator
from codegen.document import Document, Unusable

HERE = Path(__file__).parent


def generate_package(document: Document, target: Path) -> None:
    """Write the package for a described API into the new folder `target`, not yet formatted.

    Raises `Unusable` when the generator warns of anything: it would leave that part out.
    """
    with tempfile.TemporaryDirectory(prefix="codegen-") as scratch:
        source, made = Path(scratch, "openapi.json"), Path(scratch, "made")
        source.write_text(json.dumps(for_generator(document)), encoding="utf-8")
        _run_generator(source, made)
        target.mkdir(parents=True)
        shutil.copy(made / "__init__.py", target)
        shutil.copy(made / "api" / "__init__.py", target / "operations.py")
        shutil.copytree(made / "models", target / "models")


def format_package(*folders: Path) -> None:
    """Bring generated files into the one shape that ruff gives them."""
    arguments = ["--no-cache", "--quiet", "--config", str(HERE / "ruff_generated.toml")]
    arguments += map(str, folders)
    _run("ruff", "check", "--fix-only", *arguments)
    _run("ruff", "format", *arguments)
    _run("ruff", "check", *arguments)


def _run_generator(source: Path, made: Path) -> None:
    _run(
        "openapi_python_client", "generate",
        "--path", str(source),
        "--output-path", str(made),
        "--meta", "none",
        "--config", str(HERE / "config.yml"),
        "--custom-template-path", str(HERE / "templates"),
        "--fail-on-warning",
    )  # fmt: skip


def _run(module: str, *arguments: str) -> None:
    """Run a tool of this very environment; what is on PATH may be another version."""
    done = subprocess.run(  # noqa: S603  # the program and its arguments are ours
        [sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = " ".join((done.stderr + done.stdout).split())
        raise Unusable(f"{module} failed: {said[-2000:]}")


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


def try_out(made: Path, parts: Sequence[str], written: Path, cache: Path) -> None:
    """Put the folders that were `made` into a copy of the `written` package and use it.

    Raises `Unusable` when a module of the two cannot be imported, when that gives a warning, or
    when mypy finds a mistake. `cache` keeps what mypy has learnt of other packages.
    """
    with tempfile.TemporaryDirectory(prefix="codegen-") as scratch:
        whole = Path(scratch, written.name)
        shutil.copytree(written, whole, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        for part in parts:
            shutil.rmtree(whole / part, ignore_errors=True)
            shutil.copytree(made / part, whole / part)
        _use("cannot be imported", "-I", "-W", "error", "-c", IMPORT_ALL, scratch, folder=scratch)
        _use(
            "does not pass mypy", "-m", "mypy", "--config-file", str(CONFIG),
            "--cache-dir", str(cache), "--package", written.name, folder=scratch,
        )  # fmt: skip


def _use(fault: str, *arguments: str, folder: str) -> None:
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
