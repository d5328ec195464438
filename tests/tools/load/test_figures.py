"""The memory of workers: what has grown is told from what is another process."""

from __future__ import annotations

import pytest

from tools.load.figures import FLAT_MIB, SETTLED_AFTER, Memory
from tools.load.rules import Rule, Verdict


@pytest.mark.parametrize(("growth", "broken"), [(FLAT_MIB, 0), (FLAT_MIB + 1, 1)])
def test_a_worker_that_grows_is_seen(growth: float, broken: int) -> None:
    sizes = iter([50.0, 80.0, 80.0 + growth])
    memory, verdict = Memory(lambda pid: next(sizes)), Verdict()
    for moment in (0, SETTLED_AFTER, 2 * SETTLED_AFTER):
        memory.sample({"worker 1": 7, "worker 2": None}, moment)
    memory.judge(verdict)
    assert verdict.breaches[Rule.FLAT_MEMORY] == broken


def test_a_process_that_is_another_begins_anew() -> None:
    memory, verdict = Memory(lambda pid: float(pid)), Verdict()
    memory.sample({"worker 1": 50}, 0)
    memory.sample({"worker 1": 500}, SETTLED_AFTER)
    memory.judge(verdict)
    assert verdict.holds
    assert [row.split()[2:] for row in memory.rows()][1:] == [
        ["50", "-", "50.0"],
        ["500", "-", "500.0"],
    ]
