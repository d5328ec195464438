"""Ages and uptimes, as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from examples.console.scale import ago, lasting


@pytest.mark.parametrize(
    ("seconds", "expected_ago", "expected_lasting"),
    [
        (-5, "just now", "0 s"),
        (12, "just now", "12 s"),
        (61, "1 minute ago", "1 min"),
        (59 * 60 + 30, "59 minutes ago", "59 min"),
        (3 * 3600 + 12 * 60 + 30, "3 hours ago", "3 h 12 min"),
        (5 * 86_400 + 2 * 3600 + 30, "5 days ago", "5 d 2 h"),
    ],
)
def test_a_moment_is_told_by_its_distance(
    seconds: int, expected_ago: str, expected_lasting: str
) -> None:
    now = datetime.now(UTC)
    moment = now - timedelta(seconds=seconds)
    assert ago(moment, now) == expected_ago
    assert lasting(moment, now) == expected_lasting


def test_without_another_time_it_is_that_of_the_clock() -> None:
    assert ago(datetime.now(UTC)) == "just now"
    assert lasting(datetime.now(UTC) - timedelta(hours=2, minutes=5)) == "2 h 5 min"
