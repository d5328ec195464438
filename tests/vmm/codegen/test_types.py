"""Generated code is as clean as written code, whatever it was generated from."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.vmm.codegen.conftest import Workshop
from tests.vmm.codegen.descriptions import ROOT


@pytest.mark.timeout(300)
def test_mypy_accepts_every_shape(workshop: Workshop) -> None:
    """The async facade is the same for each, and is checked where it is committed."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"),
         "--cache-dir", str(ROOT / ".mypy_cache"), "--exclude", "async_facade", *workshop.names()],
        cwd=workshop.folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_of_every_shape_imports_without_a_warning(workshop: Workshop) -> None:
    modules = sorted(
        ".".join(path.relative_to(workshop.folder).with_suffix("").parts)
        for name in workshop.names()
        for path in (workshop.folder / name).rglob("*.py")
    )
    subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import {', '.join(modules)}"],
        check=True,
        env={"PYTHONPATH": f"{workshop.folder}:{ROOT}"},
    )
