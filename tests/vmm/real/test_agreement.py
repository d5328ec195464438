"""The comparison itself: it finds what is different, counts it, and keeps the shortest example."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.vmm.real import agreement
from tests.vmm.real.agreement import Tally, walk_at_random
from tests.vmm.real.calls import Drawn
from tests.vmm.real.monitors import Asked, Programs, simulated_monitor
from tests.vmm.simulator.caller import Reply


@contextmanager
def without_version(programs: Programs, *, pci: bool) -> Iterator[Asked]:
    """A monitor that does not tell its version."""
    with simulated_monitor(programs, pci=pci) as asked:

        class Different(Asked):
            def __call__(self, call: Drawn) -> Reply:
                if call.path.startswith("/version"):
                    return Reply(400, {"fault_message": "No version: 5"})
                return asked(call)

        different = Different.__new__(Different)
        different.names = asked.names
        yield different


def test_a_difference_is_told_with_its_shortest_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "real_monitor", without_version)
    tally = Tally()
    walk_at_random(Programs("none"), 1, 150, tally)
    assert tally.compared["statuses"] == tally.compared["configurations"] == 150
    assert tally.share("statuses") < 100 == tally.share("configurations")
    assert all(gap.call.path.startswith("/version") for gap, _ in tally.gaps.values())
    gap, walked = next(found for found in tally.gaps.values() if found[0].kind == "statuses")
    assert gap.real == "400 No version: 5"
    assert [call.path.partition("?")[0][:8] for call in walked] == ["/version"]
