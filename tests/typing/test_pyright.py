"""Pyright says of the files here what mypy says: the right is accepted, the wrong is not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.programs import require_npm_package, require_program

HERE = Path(__file__).parent


def test_pyright_agrees_with_every_file() -> None:
    node = require_program("node", package="nodejs")
    pyright = require_npm_package("pyright") / "index.js"
    done = subprocess.run(
        [node, str(pyright), "--project", str(HERE), "--outputjson"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["summary"]["filesAnalyzed"] == len(list(HERE.glob("*.py")))
