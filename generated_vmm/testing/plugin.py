"""A pytest fixture: `pytest_plugins = ["generated_vmm.testing.plugin"]` in a `conftest.py`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from generated_vmm.testing.monitor import SimulatedMonitor


@pytest.fixture
def simulated_monitor() -> Iterator[SimulatedMonitor]:
    """A fresh monitor for one test, which accepts any host path."""
    # Not under tmp_path: the path of a unix socket may have no more than 107 bytes.
    with (
        tempfile.TemporaryDirectory(prefix="vmm-") as folder,
        SimulatedMonitor(Path(folder) / "firecracker.socket", check_files=False) as monitor,
    ):
        yield monitor
