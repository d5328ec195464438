from collections.abc import Iterator

import pytest

from tests.oidc.fleet.fleet import Fleet, running_fleet


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with running_fleet() as fleet:
        yield fleet
