"""docs/testing.md tells the truth: its examples are one test file, its tables are complete."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from fastapi_oidc import testing
from fastapi_oidc.testing import DevClient
from fastapi_oidc.testing.faults import Endpoint, Message
from fastapi_oidc.testing.record import Event

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "testing.md").read_text()


def test_the_examples_pass_as_they_stand(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    module = tmp_path / "test_examples.py"
    module.write_text("\n\n".join(blocks))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(module)]
    configuration = ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}"]
    run = subprocess.run([*command, *configuration], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    assert re.search(r"^\d\d passed", run.stdout, re.MULTILINE), run.stdout


@pytest.mark.parametrize(
    "name",
    [
        *testing.__all__,
        *(field.name for field in fields(DevClient)),
        *get_args(Endpoint),
        *get_args(Message),
        *(event.__name__ for event in get_args(Event)),
    ],
)
def test_every_name_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)
