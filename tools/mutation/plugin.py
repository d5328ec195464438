r"""A pytest plugin for mutmut's workers.

- The fastest test runs first: a mutant that most tests notice costs as much as the fastest of them.
- What a forked child of a test runs counts for mutmut as run by that test.
- What a test left open, which is noticed at the very end, is a failure too.
- A test has the same name however often one process collects it. pytest escapes the names that it
  made for parameters again the next time, so that `[a\nb]` becomes `[a\\nb]`; mutmut collects twice
  and asks for tests by their first names.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
from mutmut.state import state

MEASURED: Final = Path("mutmut-stats.json")
"""The seconds of each test without any change, in the folder where mutmut runs."""
_RAN: Final = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # as long as the process
"""The names of functions, one in a line; a child writes where the last one ended."""


class _Written(set[str]):
    """The functions that a child ran; each is written down for its parent."""

    def add(self, name: str) -> None:
        if name not in self:
            super().add(name)
            _RAN.write(f"{name}\n".encode())


def _write_down() -> None:
    state()._stats = _Written()


os.register_at_fork(after_in_child=_write_down)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Forgets the names of the collection before."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        object.__setattr__(mark._param_ids_from or mark, "_param_ids_generated", None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts the tests by their seconds, once these were measured."""
    if MEASURED.exists():
        seconds = json.loads(MEASURED.read_text())["duration_by_test"]
        items.sort(key=lambda item: seconds.get(item.nodeid, 0))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Before mutmut notes what the test ran."""
    _RAN.seek(0)
    state()._stats.update(_RAN.read().decode().split())
    _RAN.seek(0)
    _RAN.truncate()


@pytest.hookimpl(wrapper=True)
def pytest_unconfigure() -> Generator[None]:
    """Ends the process; mutmut takes what pytest raises for a run of no test."""
    try:
        return (yield)
    except (Warning, ExceptionGroup):  # one, or several
        os._exit(pytest.ExitCode.TESTS_FAILED)
