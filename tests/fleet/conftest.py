"""One small fleet for the tests of a file; they leave every part of it as they found it."""

from collections.abc import AsyncIterator, Iterator
from typing import Final

import httpx
import pytest

from examples.fleet.fleet import Fleet, Shape, running_fleet
from tests.forked import forked_fleets
from tests.programs import require_program

SMALL: Final = Shape(port=0, provider_port=0, workers_each=1)
PATIENCE: Final = 60
"""Seconds for one answer, on a machine that has other things to do."""


@pytest.fixture(scope="module")
def one_fleet() -> Iterator[Fleet]:
    require_program("redis-server", package="redis-server")
    require_program("nginx", package="nginx")
    with forked_fleets(), running_fleet(SMALL) as fleet:
        yield fleet


@pytest.fixture
def fleet(one_fleet: Fleet) -> Iterator[Fleet]:
    yield one_fleet
    for part in one_fleet.parts.values():
        part.actions["start"]()


@pytest.fixture
async def browser(fleet: Fleet) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=fleet.url, verify=fleet.trust, timeout=PATIENCE
    ) as browser:
        yield browser
