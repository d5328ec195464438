"""Runs the examples of docs/testing.md: together they are one test file."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "testing.md"


def test_the_examples_pass_as_they_stand(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    module = tmp_path / "test_examples.py"
    module.write_text("\n\n".join(blocks))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(module)]
    configuration = ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}"]
    run = subprocess.run([*command, *configuration], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stdout
    examples = sum(block.count("def test_") for block in blocks)
    assert examples > 5
    assert re.search(r"(\d+) passed", run.stdout), run.stdout
