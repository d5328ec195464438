"""Generated code is as clean as written code, whatever it was generated from."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import require_npm_package, require_program
from tests.vmm.codegen.conftest import Workshop
from tests.vmm.codegen.descriptions import ROOT

PROGRAM = ROOT / "tests" / "typing" / "shapes" / "program.py"
STRICT = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": True}


@pytest.fixture
def shapes(workshop: Workshop, tmp_path: Path) -> Path:
    """A program that uses every shape of field, beside the package it uses."""
    shutil.copytree(
        workshop.get("unlike_any_release").folder / "models", tmp_path / "shapes/models"
    )
    (tmp_path / "shapes" / "__init__.py").touch()
    shutil.copy(PROGRAM, tmp_path)
    return tmp_path


def test_mypy_tells_right_keywords_from_wrong_ones(shapes: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"),
         "--cache-dir", str(ROOT / ".mypy_cache"), PROGRAM.name],
        cwd=shapes,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_tells_right_keywords_from_wrong_ones(shapes: Path) -> None:
    node = require_program("node", package="nodejs")
    pyright = require_npm_package("pyright") / "index.js"
    where = {"extraPaths": [str(ROOT), "."], "venvPath": str(ROOT), "venv": ".venv"}
    settings = {"include": [PROGRAM.name], "pythonVersion": "3.11", **where, **STRICT}
    (shapes / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [node, str(pyright), "--project", str(shapes)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 errors, 0 warnings" in done.stdout
