"""openapi-python-client with our templates, then ruff: a description becomes a Python package."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
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


def format_package(target: Path) -> None:
    """Bring generated files into the one shape that ruff gives them."""
    config = ["--no-cache", "--config", str(HERE / "ruff_generated.toml")]
    _run("ruff", "check", "--fix-only", "--quiet", *config, str(target))
    _run("ruff", "format", "--quiet", *config, str(target))
    _run("ruff", "check", "--quiet", *config, str(target))


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
