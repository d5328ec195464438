"""Programs that some tests start and that pip cannot install."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

from examples.console.pages import HAS_XTERM
from examples.fleet.program import path_of

NODE_MODULES = Path(__file__).with_name("node_modules")


def require_program(name: str, *, package: str) -> str:
    """The path of the program `name`, which the Debian package `package` installs.

    Without it the test that asks is skipped, or fails where CI=true.
    """
    path = path_of(name)
    if path is not None:
        return path
    _miss(f"program {name}", f"apt-get install -y {package}")


def require_npm_package(name: str) -> Path:
    """The folder of an npm package that tests/package.json lists; missing, it is as a program."""
    folder = NODE_MODULES / name
    if not folder.is_dir():
        _miss(f"npm package {name}", "npm ci --prefix tests")
    return folder


def require_terminals() -> None:
    """xterm.js, which `make terminal` builds for the console; missing, it is as a program."""
    if not HAS_XTERM:
        _miss("built xterm.js", "make terminal")


def _miss(thing: str, command: str) -> NoReturn:
    test = os.environ.get("PYTEST_CURRENT_TEST", "a test").partition(" ")[0]
    sentence = f"The {thing} is missing and {test} needs it. Install it with: {command}"
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)
