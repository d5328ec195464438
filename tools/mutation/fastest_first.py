"""A plugin of pytest for mutmut's workers: what fails fast fails first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

MEASURED: Final = Path("mutmut-stats.json")
"""What mutmut wrote down of the tests without any change, in the folder where they run."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A mutant that most tests notice costs as much as the fastest of them."""
    if MEASURED.exists():
        seconds = json.loads(MEASURED.read_text())["duration_by_test"]
        items.sort(key=lambda item: seconds.get(item.nodeid, 0))
