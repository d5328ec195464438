"""The script as a file: its size, its version, and what Node and TypeScript say about it."""

import gzip
import subprocess
from pathlib import Path

import pytest

import fastapi_oidc.web.pages as module
from fastapi_oidc.web.pages import SCRIPT
from tests.programs import require_npm_package, require_program

PATH = Path(module.__file__).parent / "browser" / "oidc-context.js"
CONSOLE = Path(__file__).parents[2] / "examples/console/static/console.js"
STRICT = ["--checkJs", "--allowJs", "--noEmit", "--strict", "--noImplicitReturns"]
TARGET = ["--target", "es2022", "--module", "esnext", "--lib", "es2023,dom,dom.iterable"]


def run(*command: str | Path) -> None:
    """Runs a program; what it says is the message of a failure."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_served_as_written_but_for_comments() -> None:
    served, written = SCRIPT.decode(), PATH.read_text()
    assert set(served.splitlines()) < set(written.splitlines())
    left_out = [line.strip() for line in written.splitlines() if line not in served.splitlines()]
    assert [line for line in left_out if not line.startswith(("/*", "*", "//"))] == []


def test_it_is_under_ten_kilobytes_on_the_wire() -> None:
    assert len(gzip.compress(SCRIPT)) < 10_000


def test_its_decisions_hold_in_node() -> None:
    node = require_program("node", package="nodejs")
    run(node, "--test", *sorted((Path(__file__).parent / "core").glob("*.test.mjs")))


@pytest.mark.parametrize("script", [PATH, CONSOLE], ids=lambda path: path.name)
def test_its_types_are_sound(script: Path) -> None:
    node = require_program("node", package="nodejs")
    compiler = require_npm_package("typescript") / "bin/tsc"
    run(node, compiler, *STRICT, *TARGET, script)
