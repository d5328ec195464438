"""A few seconds of load on a small fleet, with a fault."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from examples.fleet.fleet import Fleet, running_fleet
from tests.forked import forked_fleets
from tests.programs import require_program
from tools.load.faults import FAULTS
from tools.load.run import Plan, lines, loaded, shape_for

# A visit outlasts the access token, so that everybody is refreshed at least once.
SHORT = Plan(seconds=2, browsers=3, shortest_visit=5, longest_visit=6)
KILLED = replace(SHORT, fault_each=3, faults=FAULTS[:1])


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    require_program("redis-server", package="redis-server")
    require_program("nginx", package="nginx")
    with forked_fleets(), running_fleet(replace(shape_for(SHORT), workers_each=1)) as fleet:
        yield fleet


async def test_every_rule_holds_while_a_worker_is_killed(fleet: Fleet) -> None:
    before, told = {worker.pid for worker in fleet.workers}, list[str]()
    outcome = await loaded(fleet, KILLED, told.append)
    assert outcome.site.verdict.holds, outcome.site.verdict.examples
    assert [line.partition("  ")[2] for line in told] == ["a worker killed"]
    assert len(before & {worker.pid for worker in fleet.workers}) == 1
    assert "1 x a worker killed: " in "\n".join(lines(outcome))
