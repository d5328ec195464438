"""The comparison itself: it finds what is different, counts it, and keeps the shortest example."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.vmm.real import agreement
from tests.vmm.real.agreement import Tally, first_words, walk_at_random
from tests.vmm.real.calls import Drawn
from tests.vmm.real.monitors import Asked, Programs, simulated_monitor
from tests.vmm.simulator.caller import Reply

PROGRAMS = Programs("none")


@contextmanager
def same(programs: Programs, *, pci: bool) -> Iterator[Asked]:
    with simulated_monitor(programs, pci=pci) as asked:
        yield asked


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


def walk(monkeypatch: pytest.MonkeyPatch, real: object) -> Tally:
    monkeypatch.setattr(agreement, "real_monitor", real)
    tally = Tally()
    walk_at_random(PROGRAMS, 1, 150, tally)
    return tally


def test_a_monitor_agrees_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = walk(monkeypatch, same)
    assert not tally.gaps
    assert tally.compared["statuses"] == tally.compared["configurations"] == 150
    assert tally.compared["first words"] > 20
    assert tally.share("statuses") == 100


def test_a_difference_is_told_with_its_shortest_example(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = walk(monkeypatch, without_version)
    assert tally.share("statuses") < 100
    gap, walked = next(found for found in tally.gaps.values() if found[0].kind == "statuses")
    assert gap.real == "400 No version: 5"
    assert [call.path.partition("?")[0][:8] for call in walked] == ["/version"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("invalid type: null, expected u16 at line 1 column 77.", "invalid type: null, expected u"),
        ("invalid type: null, expected u16 at `a.b`.", "invalid type: null, expected u"),
        ("missing field `a` at line 1 column 2.", "missing field"),
        (
            "Cannot open: No such file or directory (os error 2)",
            "Cannot open: No such file or directory",
        ),
        ("PCI is not enabled", "PCI is not enabled"),
    ],
)
def test_first_words_end_at_the_first_detail(fault: str, words: str) -> None:
    assert first_words(fault) == words
