"""A pytest plugin: what a forked child of a test runs counts for mutmut as run by that test."""

from __future__ import annotations

import os
import tempfile
from typing import Final

import pytest
from mutmut.state import state

_TOLD: Final = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # as long as the process
"""The names of functions, one in a line; a child writes where the last one ended."""


class _Telling(set[str]):
    """The functions that a child ran, of which its parent is told."""

    def add(self, name: str) -> None:
        if name not in self:
            super().add(name)
            _TOLD.write(f"{name}\n".encode())


def _tell() -> None:
    state()._stats = _Telling()


os.register_at_fork(after_in_child=_tell)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Before mutmut notes what the test ran."""
    _TOLD.seek(0)
    state()._stats.update(_TOLD.read().decode().split())
    _TOLD.seek(0)
    _TOLD.truncate()
