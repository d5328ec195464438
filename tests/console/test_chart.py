"""From figures to lines."""

from __future__ import annotations

from examples.console.chart import GAP_SECONDS, HEIGHT, WIDTH, WINDOW_SECONDS, Chart, History
from examples.console.memory import MEMORY_LABELS, memory_figures
from examples.console.processor import share
from generated_vmm import BalloonStats
from generated_vmm.process import Usage

MIB = 1 << 20


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def history(time: Time) -> History:
    return History({"used": "Used", "free": "Free"}, time)


def drawn(history: History, top: int = 100) -> Chart:
    chart = history.chart("Memory", "MiB", top)
    assert chart is not None
    return chart


def test_without_samples_there_is_no_chart() -> None:
    assert history(Time()).chart("Memory", "MiB", 128) is None


def test_a_line_ends_now_and_goes_back_for_the_time_of_the_axis() -> None:
    time = Time()
    past = history(time)
    for used in (0, 50, 100):
        past.add({"used": used})
        time.now += 9
    time.now += WINDOW_SECONDS - 27
    line = drawn(past).lines[0]
    assert line.path.startswith(f"M0.0 {HEIGHT}.0h.1L{WIDTH * 9 / WINDOW_SECONDS} {HEIGHT / 2}L")
    assert line.latest == 100
    past.add({"used": 0})
    assert drawn(past).lines[0].path.endswith(f"M{WIDTH}.0 {HEIGHT}.0")


def test_a_stretch_without_samples_is_a_gap() -> None:
    time = Time()
    past = history(time)
    for pause in (GAP_SECONDS, GAP_SECONDS + 1, 0):
        past.add({"used": 1})
        time.now += pause
    path = drawn(past).lines[0].path
    assert [letter for letter in path if letter in "ML"] == ["M", "L", "M"]


def test_a_figure_that_is_not_there_has_no_line() -> None:
    past = history(Time())
    past.add({"used": 1})
    assert [line.label for line in drawn(past).lines] == ["Used"]


def test_the_chart_says_its_newest_figures() -> None:
    past = history(Time())
    past.add({"used": 40, "free": 16.4})
    expected = "Memory over 3 minutes, of 100 MiB: used 40 MiB, free 16 MiB."
    assert drawn(past).summary == expected


def test_many_people_who_look_make_no_more_samples() -> None:
    time = Time()
    past = history(time)
    for _ in range(10):
        past.add({"used": 1})
        time.now += 0.25
    assert drawn(past).lines[0].path.count("L") == 2


def test_what_is_older_than_the_axis_is_not_drawn() -> None:
    time = Time()
    past = history(time)
    past.add({"used": 1})
    time.now += WINDOW_SECONDS + 1
    assert past.chart("Memory", "MiB", 1) is None


def test_figures_over_the_top_stay_in_the_box() -> None:
    past = history(Time())
    past.add({"used": 500})
    assert drawn(past).lines[0].path == f"M{WIDTH}.0 0.0h.1"


def test_the_balloons_statistics_are_in_mib() -> None:
    stats = BalloonStats(
        target_pages=0, actual_pages=0, target_mib=0, actual_mib=16, free_memory=40 * MIB
    )
    figures = memory_figures(stats)
    assert figures == {"free_memory": 40, "actual_mib": 16}
    assert figures.keys() <= MEMORY_LABELS.keys()


def test_the_processors_share_is_that_of_the_time_between() -> None:
    before, after = Usage(10.0, 5.0, 0), Usage(12.0, 6.0, 0)
    assert share(before, after) == {"used": 50.0}
    assert share(after, after) == {}
    assert share(after, before) == {}
