"""From balloon statistics to lines."""

from __future__ import annotations

from examples.console.memory import HEIGHT, KEPT_SAMPLES, WIDTH, MemoryHistory
from generated_vmm import BalloonStats

MIB = 1 << 20


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def stats(*, free: int | None, balloon: int = 0) -> BalloonStats:
    return BalloonStats(
        target_pages=0,
        actual_pages=0,
        target_mib=0,
        actual_mib=balloon,
        free_memory=None if free is None else free * MIB,
    )


def test_without_samples_there_is_no_chart() -> None:
    assert MemoryHistory().chart(128) is None


def test_lines_go_from_the_oldest_sample_to_the_newest() -> None:
    time = Time()
    history = MemoryHistory(time)
    for free in (0, 64, 128):
        history.add(stats(free=free))
        time.now += 10
    chart = history.chart(128)
    assert chart is not None
    assert chart.seconds == 20
    assert [line.label for line in chart.lines] == ["Free", "In the balloon"]
    assert chart.lines[0].points == f"0.0,{HEIGHT}.0 {WIDTH / 2},{HEIGHT / 2} {WIDTH}.0,0.0"
    assert chart.lines[0].latest == 128


def test_the_chart_says_its_newest_figures() -> None:
    history = MemoryHistory(Time())
    history.add(stats(free=40, balloon=16))
    chart = history.chart(128)
    assert chart is not None
    expected = "Memory over 0 seconds, of 128 MiB: free 40 MiB, in the balloon 16 MiB."
    assert chart.summary == expected


def test_a_figure_the_guest_does_not_give_has_no_line() -> None:
    history = MemoryHistory(Time())
    history.add(stats(free=None))
    chart = history.chart(128)
    assert chart is not None
    assert [line.key for line in chart.lines] == ["actual_mib"]


def test_many_people_who_look_make_no_more_samples() -> None:
    time = Time()
    history = MemoryHistory(time)
    for _ in range(10):
        history.add(stats(free=1))
        time.now += 0.25
    chart = history.chart(128)
    assert chart is not None
    assert len(chart.lines[0].points.split()) == 3


def test_old_samples_are_dropped() -> None:
    time = Time()
    history = MemoryHistory(time)
    for _ in range(KEPT_SAMPLES + 10):
        history.add(stats(free=1))
        time.now += 2
    chart = history.chart(128)
    assert chart is not None
    assert len(chart.lines[0].points.split()) == KEPT_SAMPLES


def test_figures_over_the_top_stay_in_the_box() -> None:
    history = MemoryHistory(Time())
    history.add(stats(free=500))
    chart = history.chart(128)
    assert chart is not None
    assert chart.lines[0].points == f"{WIDTH}.0,0.0"
