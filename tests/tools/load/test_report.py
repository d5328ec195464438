"""What is printed, and how figures are made."""

from __future__ import annotations

import pytest

from tests.tools.load.world import World
from tools.load.causes import Cause, Span
from tools.load.figures import Latencies, Memory, percentile
from tools.load.report import lines
from tools.load.rules import Rule
from tools.load.run import Outcome


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (95, 95), (99, 99), (100, 100)])
def test_so_many_percent_are_not_above_a_percentile(percent: int, value: float) -> None:
    assert percentile([float(number) for number in range(1, 101)], percent) == value


def test_the_percentile_of_one_is_that_one() -> None:
    assert {percentile([7.0], percent) for percent in (1, 50, 99)} == {7.0}


def test_latencies_are_counted_for_each_kind() -> None:
    latencies = Latencies()
    for seconds in (0.001, 0.003, 0.002):
        latencies.note("session", seconds)
    latencies.note("login", 1)
    _, login, session = latencies.rows(duration=2)
    assert login.split() == ["login", "1", "0.5", "1000.0", "1000.0", "1000.0"]
    assert session.split() == ["session", "3", "1.5", "2.0", "3.0", "3.0"]
    assert latencies.count == 4


def test_the_report_says_which_rule_was_broken_and_what_a_fault_explains() -> None:
    site = World().site
    cause = Cause("Redis away", frozenset({503}), aftermath=0)
    with site.causes.under(cause):
        site.causes.explain(503, Span(0, float("inf")))
    site.verdict.broken(Rule.ENDED_IS_REFUSED, "person-001 was served")
    outcome = Outcome(site, Memory(), faults=["Redis away"], seconds=1)
    said = "\n".join(lines(outcome))
    assert "1 x Redis away: 1 x 503\n" in said
    assert f"  BROKEN 1 times    {Rule.ENDED_IS_REFUSED}\n" in said
    assert f"  holds             {Rule.OWN_SESSION}\n" in said
    assert said.endswith(f"  {Rule.ENDED_IS_REFUSED}: person-001 was served")
