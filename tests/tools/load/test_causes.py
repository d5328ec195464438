"""When a fault explains what was seen."""

from __future__ import annotations

import pytest

from tools.load.causes import Cause, Causes, Span
from tools.load.faults import FAULTS

AWAY = Cause("something away", frozenset({503}), aftermath=10, loses_answers=True)


class Moments:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def causes() -> Causes:
    """There was a fault from 100 to 105, and what follows from it may be seen until 115."""
    moments = Moments()
    causes = Causes(moments)
    with causes.under(AWAY):
        moments.now = 105
    return causes


@pytest.mark.parametrize(
    ("span", "explained"),
    [
        (Span(90, 99.9), False),
        (Span(90, 100), True),
        (Span(101, 102), True),
        (Span(115, 130), True),
        (Span(115.1, 116), False),
        (Span(90, 130), True),
    ],
)
def test_a_request_meets_a_fault_when_their_times_do(
    causes: Causes, span: Span, explained: bool
) -> None:
    assert causes.explain(503, span) is explained
    assert causes.lose_answers(span) is explained
    assert not causes.lose_endings(span)
    assert causes.explained["something away", 503] == explained


def test_a_fault_explains_its_own_statuses_alone(causes: Causes) -> None:
    assert not causes.explain(500, Span(101, 102))
    assert not causes.explained


def test_a_fault_that_lasts_explains_what_comes(causes: Causes) -> None:
    with causes.under(AWAY):
        assert causes.explain(503, Span(10_000, 10_001))
    assert not causes.explain(503, Span(10_000, 10_001))


def test_no_fault_of_the_plan_explains_an_error_of_an_application() -> None:
    """500 is what a worker answers to an exception that nobody took."""
    assert not [fault.cause.name for fault in FAULTS if 500 in fault.cause.statuses]
    assert len({fault.cause.name for fault in FAULTS}) == len(FAULTS)
