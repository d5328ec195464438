"""Programs that some tests start and that pip cannot install."""

from __future__ import annotations

import os
import shutil

import pytest


def require_program(name: str, *, package: str, needed_by: str) -> str:
    """The path of the program `name`, from the Debian package `package`.

    Without it the tests named by `needed_by` are skipped, or fail where CI=true.
    """
    path = shutil.which(name)
    if path is not None:
        return path
    sentence = (
        f"The program {name} is missing; {needed_by} need it. "
        f"Install it with: apt-get install -y {package}"
    )
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)
