"""What `make bench` makes of its measurements."""

from __future__ import annotations

import pytest

from tools.benchmarks.rounds import Cost, costs
from tools.benchmarks.targets import Target, report


def test_in_every_round_each_case_has_a_turn_and_follows_another() -> None:
    turns: list[str] = []
    cases = {name: lambda calls, name=name: turns.append(f"{name}{calls}") for name in "abc"}
    measured = costs(cases, rounds=20, calls=7)
    assert turns[:3] == ["a1", "b1", "c1"]  # once before it counts
    rounds = list(zip(*[iter(turns[3:])] * 3, strict=True))
    assert {tuple(sorted(each)) for each in rounds} == {("a7", "b7", "c7")}
    assert len(set(rounds)) == 6
    assert all(len(cost.wall) == len(cost.cpu) == 20 for cost in measured.values())


def test_what_comes_before_a_turn_is_not_measured() -> None:
    happened: list[str] = []
    cases = {"a": lambda calls: happened.append("a")}
    costs(cases, rounds=2, calls=1, before=lambda: happened.append("-"))
    assert "".join(happened) == "a" + "-a-a"


def test_a_slow_round_is_slow_for_both_sides_of_a_ratio() -> None:
    ours, peer = Cost(wall=[2, 40, 3], cpu=[1, 0, 5]), Cost(wall=[1, 20, 1], cpu=[1, 1, 1])
    assert ours.wall_ratio(peer) == 2
    assert ours.cpu_ratio(peer) == 2
    assert (ours.median_wall, ours.median_cpu) == (3, 1)


@pytest.mark.parametrize(("figure", "met"), [(1.4, True), (1.5, True), (1.6, False)])
def test_a_target_is_met_up_to_its_limit(figure: float, met: bool) -> None:
    assert Target("ours / theirs", figure, 1.5).is_met is met


def test_a_figure_that_is_no_number_meets_nothing() -> None:
    assert not Target("ours / theirs", float("nan"), 1.5).is_met


def test_the_report_names_what_was_missed(capsys: pytest.CaptureFixture[str]) -> None:
    met, missed = Target("making it", 5.26, 100, "µs"), Target("import", 31, 30, "ms")
    assert report([met]) == 0
    assert report([met, missed]) == 1
    printed = capsys.readouterr()
    assert "  met         5.26   at most 100 µs     making it\n" in printed.out
    assert "  MISSED     31.00   at most 30 ms      import\n" in printed.out
    assert printed.err == "Missed 1 of 2: import\n"
