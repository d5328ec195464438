"""A run of mutmut over a copy of this repository, so that the working tree stays as it is."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tools.mutation.areas import REPOSITORY, UNRUN, folders_for

WORKPLACE: Final = REPOSITORY / "build" / "mutants"
_COPIED: Final = (
    "fastapi_oidc",
    "generated_vmm",
    "tools",
    "tests",
    "docs",
    "examples",
    "openapi",
    "pyproject.toml",
)
_WORDS: Final = r"^\s*(raise\b|explanation\b|_log\.|return \w+(Error|Violation)\()"
"""What an error or the log says decides nothing; that it is said is its condition's."""
_LONGEST_TEST: Final = 14
"""Seconds. A mutant that waits for what never comes is killed by the first test that meets it: that
ends what it started, while mutmut, after 15 seconds at the least, leaves it behind."""
_PATIENCE: Final = 60
"""Seconds that mutmut has to stop its tests and to write down what it knows."""


class NotPlayed(Exception):
    """mutmut could not begin: the tests fail without any change, or none runs these modules."""


def play(chosen: list[str], seconds: float, children: int = 1) -> Path:
    """Play the mutants of these modules, those with the fastest tests first; returns the folder.

    What is not played after `seconds` is left; `children` are played at a time. Raises NotPlayed.
    """
    prepare(chosen)
    log = WORKPLACE / "mutmut.log"
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(children)]
    with log.open("wb") as output:
        run = subprocess.Popen(command, cwd=WORKPLACE, stdout=output, stderr=subprocess.STDOUT)
        try:
            status = run.wait(seconds)
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(_PATIENCE)
            status = 0  # what was played until then is written down
        finally:
            run.kill()
    if status:
        raise NotPlayed(f"mutmut ended with {status}; its words are in {log}")
    return WORKPLACE


def prepare(chosen: list[str]) -> None:
    """Copy what the tests need, with mutmut's settings for these modules."""
    shutil.rmtree(WORKPLACE, ignore_errors=True)
    for name in _tracked():
        target = WORKPLACE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, target)
    with (WORKPLACE / "pyproject.toml").open("a") as project:
        project.write(settings(chosen))


def settings(chosen: list[str]) -> str:
    """mutmut's table in pyproject.toml."""
    lists: dict[str, Iterable[str]] = {
        "source_paths": ["fastapi_oidc", "generated_vmm"],
        "only_mutate": chosen,
        "do_not_mutate_patterns": [_WORDS],
        "also_copy": ["docs", "examples", "openapi"],
        "pytest_add_cli_args": [
            *("-p", "no:xdist", "-p", "no:cacheprovider", "-p", "tools.mutation.plugin"),
            f"--timeout={_LONGEST_TEST}",
            *(f"--ignore={tests}" for tests in UNRUN),
        ],
        "pytest_add_cli_args_test_selection": folders_for(chosen),
    }
    lines = [f"{name} = {json.dumps(values)}" for name, values in lists.items()]
    # A process that has run no test: what an earlier test left in a cache would hide a change.
    isolation = 'process_isolation = "forkserver"'
    return "\n".join(["", "[tool.mutmut]", isolation, *lines, ""])


def _tracked() -> list[str]:
    """Files of the parts that are copied: those in git, and new ones that it does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    answer = subprocess.run(
        [*command, *_COPIED], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return [name for name in answer.stdout.split("\0") if name and (REPOSITORY / name).is_file()]
