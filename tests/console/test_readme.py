"""The list of modules in the console's README."""

from __future__ import annotations

import re
from pathlib import Path

from examples import console


def test_the_readme_has_every_module_and_no_other() -> None:
    folder = Path(console.__file__).parent
    table = (folder / "README.md").read_text().partition("## Where things are")[2]
    modules = {path.name for path in folder.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert set(re.findall(r"`(\w+\.py)`", table)) == modules
