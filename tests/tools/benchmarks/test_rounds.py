"""Cases are measured in turns, and ratios are taken within each round."""

from __future__ import annotations

import pytest

from tools.benchmarks.rounds import Cost, costs


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    # The second round was slow for both.
    assert Cost([3.0, 30.0, 4.0]).ratio(Cost([2.0, 20.0, 2.0])) == 1.5


def test_a_ratio_may_be_of_what_goes_beyond_a_third_case() -> None:
    assert Cost([3.0, 5.0]).ratio(Cost([2.0, 3.0]), beyond=Cost([1.0, 1.0])) == 2.0
    assert Cost([3.0, 5.0]).above(Cost([1.0, 2.0])).rounds == [2.0, 3.0]


def test_every_case_has_each_turn_after_something_unmeasured() -> None:
    done: list[str] = []
    cases = {name: lambda calls, name=name: done.extend([name] * calls) for name in "ab"}
    measured = costs(cases, rounds=3, calls=2, before=lambda: done.append("before"))
    assert done[:2] == ["a", "b"]  # not measured
    assert sorted(done[2:]) == ["a"] * 6 + ["b"] * 6 + ["before"] * 6
    assert [len(cost.rounds) for cost in measured.values()] == [3, 3]


def test_ratios_need_as_many_rounds() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Cost([1.0, 2.0]).ratio(Cost([1.0]))
