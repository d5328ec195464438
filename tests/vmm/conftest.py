import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: that of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="vm-") as name:
        yield Path(name)
