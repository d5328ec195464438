import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.vmm.real.monitors import real_process
from tests.vmm.simulator.conftest import IS_OLDER

collect_ignore = ["test_real_monitor.py"] * IS_OLDER


@pytest.fixture
def file(folder: Path) -> Path:
    """A host file that is large enough to be a disk."""
    path = folder / "file"
    path.write_bytes(bytes(1 << 20))
    return path


def required(variable: str) -> str:
    """The value of a variable that names a part of the real monitor, or the test is not run."""
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"not run: {variable} is not set, so there is no real monitor to compare with")
    return value


@pytest.fixture
def start_process(folder: Path) -> Iterator[Callable[[str], Path]]:
    """Starts the real monitor and gives its socket; the process ends with the test."""
    binary = required("FIRECRACKER_BIN")
    if shutil.which(binary) is None:
        pytest.fail(f"FIRECRACKER_BIN names no program: {binary}")
    with ExitStack() as stack:

        def start(name: str) -> Path:
            socket_path = folder / f"{name}.socket"
            stack.enter_context(real_process(binary, socket_path, "--id", name))
            return socket_path

        yield start
