"""Programs that some tests start and that pip cannot install."""

from __future__ import annotations

import os
import shutil

import pytest


def require_program(name: str, *, package: str) -> str:
    """The path of the program `name`, which the Debian package `package` installs.

    Without it the test that asks is skipped, or fails where CI=true.
    """
    path = shutil.which(name)
    if path is not None:
        return path
    test = os.environ.get("PYTEST_CURRENT_TEST", "a test").partition(" ")[0]
    sentence = (
        f"The program {name} is missing and {test} needs it. "
        f"Install it with: apt-get install -y {package}"
    )
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)
