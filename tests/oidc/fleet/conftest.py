"""A fleet for each test, or two workers for all the tests of a file that harm no process."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.oidc.fleet.fleet import Fleet, running_fleet
from tests.oidc.fleet.worker_process import Worker


@dataclass(slots=True)
class Pair:
    """Two workers that share a Redis."""

    fleet: Fleet
    first: Worker
    second: Worker


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with running_fleet() as fleet:
        yield fleet


@pytest.fixture(scope="module")
def pair_of_module() -> Iterator[Pair]:
    with running_fleet() as fleet:
        yield Pair(fleet, *fleet.workers({}, {}))


@pytest.fixture
def pair(pair_of_module: Pair) -> Iterator[Pair]:
    """Nothing is recorded of other tests, the provider works, and its keys may be read again."""
    pair_of_module.fleet.pass_seconds(60)
    pair_of_module.fleet.op.record.clear()
    yield pair_of_module
    pair_of_module.fleet.provider_heals()
