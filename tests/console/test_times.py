"""Ages and uptimes, as people read them."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from examples.console.ages import ago, lasting
from examples.console.uptime import Uptime


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


def an_hour_old(path: Path) -> datetime:
    path.touch()
    moment = datetime.now(UTC) - timedelta(hours=1)
    os.utime(path, (moment.timestamp(), moment.timestamp()))
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def test_a_machine_that_runs_when_it_is_first_seen_runs_since_its_socket_was_made(
    tmp_path: Path,
) -> None:
    made = an_hour_old(tmp_path / "s")
    uptime = Uptime(str(tmp_path / "s"))
    uptime.note("No answer")
    assert uptime.since is None
    uptime.note("Running")
    uptime.note("Paused")
    assert uptime.since == made


def test_a_machine_that_is_seen_to_start_runs_since_then(tmp_path: Path) -> None:
    an_hour_old(tmp_path / "s")
    uptime = Uptime(str(tmp_path / "s"))
    uptime.note("Not started")
    began = datetime.now(UTC)
    uptime.note("Running")
    assert uptime.since is not None
    assert began <= uptime.since <= datetime.now(UTC)


def test_the_socket_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    made = an_hour_old(tmp_path / "s")
    uptime = Uptime(str(tmp_path / "s"))
    uptime.note("Not started")
    uptime.note("Running")
    assert datetime.fromtimestamp((tmp_path / "s").stat().st_mtime, UTC) == made


def test_a_machine_that_ends_or_starts_again_begins_anew(tmp_path: Path) -> None:
    made = an_hour_old(tmp_path / "s")
    uptime = Uptime(str(tmp_path / "s"))
    uptime.note("Running")
    uptime.note("Ended")
    assert uptime.since is None
    uptime.note("Running")
    assert uptime.since is not None
    assert uptime.since > made


def test_without_a_socket_nothing_is_known(tmp_path: Path) -> None:
    uptime = Uptime(str(tmp_path / "s"))
    uptime.note("Running")
    assert uptime.since is None
