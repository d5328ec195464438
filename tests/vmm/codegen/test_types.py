"""Generated code is as strictly typed as written code, whatever it was generated from."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.vmm.codegen.conftest import Workshop
from tests.vmm.codegen.descriptions import PROJECT, ROOT
from tests.vmm.codegen.shapes import all_shapes

COMMITTED = {"openapi_3_0", "openapi_3_1", "swagger", PROJECT.description().stem}


@pytest.mark.timeout(300)
def test_mypy_accepts_every_shape(workshop: Workshop) -> None:
    """All that differs from the committed package, which is checked where it is.

    The async facade is the same for each.
    """
    made = [workshop.get(shape).name for shape in all_shapes() if shape not in COMMITTED]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"),
         "--cache-dir", str(ROOT / ".mypy_cache"), "--exclude", "async_facade", *made],
        cwd=workshop.folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
