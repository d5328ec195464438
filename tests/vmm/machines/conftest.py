"""Machines with simulated monitors, in a folder of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from generated_vmm.machines import Machine, Machines
from tests.vmm.machines.parts import definition, machines_in


@pytest.fixture
def machines(folder: Path) -> Iterator[Machines]:
    with machines_in(folder, detached=False) as made:
        yield made


@pytest.fixture
def web(folder: Path, machines: Machines) -> Machine:
    """A machine that has not been started."""
    return machines.create("web", definition(folder))
