"""What is drawn and told of a machine: charts, their figures, and times as people read them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from examples.console.chart import (
    BYTES_A_SECOND,
    HEIGHT,
    MEBIBYTES,
    PERCENT,
    WIDTH,
    Chart,
    Kind,
    Unit,
    ago,
    chart,
    lasting,
)
from examples.console.figures import of_balloon, of_metrics, of_usage
from examples.console.history import GAP_SECONDS, SHORTEST_PAUSE, WINDOW_SECONDS, History
from generated_vmm import BalloonStats
from generated_vmm.process import Metrics, Usage

KIND = Kind("Memory", MEBIBYTES, {"used": "Used", "free": "Free"})
KIB, MIB = 1024, 1 << 20


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def past(time: Time) -> History:
    return History(time)


def drawn(history: History, most: float = 100) -> Chart:
    found = chart(history, KIND, most)
    assert found is not None
    return found


def test_without_samples_there_is_no_chart(past: History) -> None:
    assert chart(past, KIND) is None


def test_a_line_ends_now_and_goes_back_for_the_time_of_the_axis(time: Time, past: History) -> None:
    for used in (0, 50, 100):
        past.add({"used": used})
        time.now += GAP_SECONDS
    time.now += WINDOW_SECONDS - 3 * GAP_SECONDS
    line = drawn(past).lines[0]
    second = WIDTH * GAP_SECONDS / WINDOW_SECONDS
    assert line.path.startswith(f"M0.0 {HEIGHT}.0h.1L{second} {HEIGHT / 2}L")
    past.add({"used": 0})
    assert drawn(past).lines[0].path.endswith(f"M{WIDTH}.0 {HEIGHT}.0h.1")


def test_a_stretch_without_samples_is_a_gap(time: Time, past: History) -> None:
    for pause in (GAP_SECONDS, GAP_SECONDS + 1, 0):
        past.add({"used": 1})
        time.now += pause
    assert [len(stretch) for stretch in past.stretches("used")] == [2, 1]
    assert [letter for letter in drawn(past).lines[0].path if letter in "ML"] == ["M", "L", "M"]


def test_a_sample_without_a_figure_is_a_gap_of_this_figure_alone(past: History) -> None:
    for values in ({"used": 1, "free": 1}, {"free": 1}, {"used": 1, "free": 1}):
        past.add(values)
    assert [len(stretch) for stretch in past.stretches("used")] == [1, 1]
    assert [len(stretch) for stretch in past.stretches("free")] == [3]


def test_a_figure_that_is_not_there_has_no_line(past: History) -> None:
    past.add({"used": 1})
    assert [line.label for line in drawn(past).lines] == ["Used"]


def test_in_a_gap_there_is_no_latest_figure(time: Time, past: History) -> None:
    past.add({"used": 40})
    assert drawn(past).lines[0].latest == "40 MiB"
    time.now += GAP_SECONDS + 1
    assert drawn(past).lines[0].latest == ""
    past.add({})
    assert drawn(past).lines[0].latest == ""


def test_the_chart_says_its_newest_figures(past: History) -> None:
    past.add({"used": 40, "free": 16.4})
    expected = "Memory over 3 minutes, of 100 MiB: used 40 MiB, free 16 MiB."
    assert drawn(past).summary == expected


def test_a_sample_of_just_now_is_fresh_and_an_empty_one_is_not(time: Time, past: History) -> None:
    assert not past.is_fresh
    past.add({"used": 1})
    assert past.is_fresh
    time.now += SHORTEST_PAUSE
    assert not past.is_fresh
    past.add({})
    assert not past.is_fresh


def test_what_is_older_than_the_axis_is_not_drawn(time: Time, past: History) -> None:
    past.add({"used": 1})
    time.now += WINDOW_SECONDS + 1
    assert chart(past, KIND) is None


def test_a_history_is_bounded(past: History) -> None:
    for _ in range(10_000):
        past.add({"used": 1})
    assert len(past.stretches("used")[0]) == WINDOW_SECONDS / SHORTEST_PAUSE + 1


def test_what_there_can_be_is_the_upper_edge_unless_there_is_more(past: History) -> None:
    past.add({"used": 80})
    assert drawn(past, 100).marks == ("100 MiB", "50 MiB")
    assert drawn(past, 60).marks == ("100 MiB", "50 MiB")
    assert drawn(past, 60).lines[0].path == f"M{WIDTH}.0 {HEIGHT * 0.2}h.1"


@pytest.mark.parametrize(
    ("unit", "highest", "top"),
    [
        (PERCENT, 0, 10),
        (PERCENT, 11, 20),
        (PERCENT, 101, 200),
        (PERCENT, 3200, 5000),
        (BYTES_A_SECOND, 0, KIB),
        (BYTES_A_SECOND, KIB + 1, 2 * KIB),
        (BYTES_A_SECOND, 600 * KIB, MIB),
        (BYTES_A_SECOND, 1e30, 1e30),
    ],
)
def test_the_upper_edge_is_a_round_figure(unit: Unit, highest: float, top: float) -> None:
    assert unit.top(highest) == top


@pytest.mark.parametrize(
    ("unit", "value", "told"),
    [
        (PERCENT, 3.6, "4 %"),
        (MEBIBYTES, 2048, "2048 MiB"),
        (BYTES_A_SECOND, 0, "0 B/s"),
        (BYTES_A_SECOND, 999, "999 B/s"),
        (BYTES_A_SECOND, 1536, "1.5 KiB/s"),
        (BYTES_A_SECOND, 2 * MIB, "2 MiB/s"),
        (BYTES_A_SECOND, 345 * MIB, "345 MiB/s"),
    ],
)
def test_a_figure_is_told_with_its_unit(unit: Unit, value: float, told: str) -> None:
    assert unit.told(value) == told


# What is drawn, made of what a balloon, a process and lines of metrics tell


MIB = 1 << 20


@pytest.mark.parametrize(
    ("told", "used"),
    [
        ({"total_memory": 100 * MIB, "available_memory": 60 * MIB, "free_memory": 10 * MIB}, 40),
        ({"total_memory": 100 * MIB, "free_memory": 10 * MIB}, 90),
        ({"total_memory": 10 * MIB, "available_memory": 60 * MIB}, 0),
        ({"available_memory": 60 * MIB}, None),
    ],
)
def test_what_no_program_of_the_guest_could_have_is_used(
    told: Mapping[str, int], used: float | None
) -> None:
    sizes: Mapping[str, Any] = {"target_pages": 0, "actual_pages": 0, "target_mib": 0}
    figures = of_balloon(BalloonStats(**sizes, actual_mib=16, **told))
    assert figures.get("memory") == used
    assert figures["balloon"] == 16


def test_the_processors_share_is_that_of_the_time_between() -> None:
    before, after = Usage(10.0, 5.0, MIB), Usage(12.0, 6.0, 2 * MIB)
    assert of_usage(before, after) == {"resident": 2, "processor": 50}
    assert of_usage(None, after) == {"resident": 2}
    assert of_usage(after, after) == {"resident": 2}
    assert of_usage(after, before) == {"resident": 1}


def line(seconds: float | None, **groups: Mapping[str, int]) -> Metrics:
    return Metrics(datetime.now(UTC), groups, seconds)


def test_rates_are_those_of_all_devices_of_a_kind_together() -> None:
    lines = [
        line(
            2.0,
            block_a={"read_bytes": 100, "write_bytes": 40},
            block_b={"read_bytes": 20},
            net_eth0={"rx_bytes_count": 10, "tx_bytes_count": 2},
        )
    ]
    assert of_metrics(lines) == {"read": 60, "written": 20, "received": 5, "sent": 1}


def test_lines_are_weighed_by_the_time_they_counted() -> None:
    lines = [line(9.0, block_a={"read_bytes": 90}), line(1.0, block_a={"read_bytes": 910})]
    assert of_metrics(lines)["read"] == pytest.approx(100)


def test_nothing_is_told_of_what_is_not_known() -> None:
    assert of_metrics([]) == {}
    assert of_metrics([line(None, block_a={"read_bytes": 5})]) == {}
    assert of_metrics([line(2.0, block={"read_bytes": 5})]) == {}
    known = [line(None, block_a={"read_bytes": 5}), line(2.0, block_a={"read_bytes": 6})]
    assert of_metrics(known) == {"read": 3, "written": 0}


# Ages and uptimes, as people read them


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
