import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vmm.halves import Do, doing


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: that of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="vm-") as name:
        yield Path(name)


@pytest.fixture
def do() -> Iterator[Do]:
    with doing() as do:
        yield do
