"""What `make curves` makes of its measurements: pictures and figures that say the same."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.benchmarks.curves.growth import grown, lines, measured, quick, ratio
from tools.benchmarks.curves.pictures import Bars, Lines, Panels, Picture, keep
from tools.benchmarks.rounds import Batch, Cost
from tools.benchmarks.targets import Target

MACHINE = "2026-11-21 12:00 UTC, a processor, 2 cores, load 0.1"
GROWTH = Lines(
    title="Requests over sessions",
    x="sessions",
    y="µs",
    x_scale="log",
    lines={"ours, memory": [(100, 50.0), (1000, 51.5)], "a peer": [(100, 40.0), (1000, 80.0)]},
    note="Two points.",
    targets=[Target("1000 / 100 sessions", 1.03, 1.5)],
)
PARTS = Bars(
    title="A login",
    x="ms",
    bars={"ours": {"provider": 1.5, "own": 2.25}, "a peer": {"provider": 1.5, "own": 9.0}},
    note="Two bars.",
)
LOAD = Panels(
    title="Load",
    panels={"a second": {"ours": 17234.9, "a peer": 4000.0}, "p99": {"ours": 7.5, "a peer": 31.0}},
    note="Two panels.",
)


def words(path: Path) -> str:
    """All text of an SVG."""
    return " ".join(ElementTree.fromstring(path.read_text()).itertext())


@pytest.mark.parametrize(
    ("picture", "told"),
    [
        (GROWTH, ["Requests over sessions", "ours, memory", "a peer", "µs"]),
        (PARTS, ["A login", "ours", "provider", "own", "3.75", "10.5"]),
        (LOAD, ["Load", "a second", "p99", "17,235", "7.5"]),
    ],
)
def test_a_picture_says_what_was_measured_and_where(
    picture: Picture, told: list[str], tmp_path: Path
) -> None:
    keep("picture", picture, tmp_path, MACHINE)
    said = words(tmp_path / "picture.svg")
    for text in (*told, picture.note, MACHINE):
        assert text in said


def test_the_figures_stand_beside_the_picture(tmp_path: Path) -> None:
    keep("growth", GROWTH, tmp_path, MACHINE)
    figures = json.loads((tmp_path / "growth.json").read_text())
    assert figures["lines"]["ours, memory"] == [[100, 50.0], [1000, 51.5]]
    assert figures["machine"] == MACHINE
    assert figures["targets"] == [asdict(GROWTH.targets[0]) | {"met": True}]


@pytest.mark.parametrize("picture", [GROWTH, PARTS, LOAD])
def test_the_same_figures_make_the_same_file(picture: Picture, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        keep("picture", picture, tmp_path / name, MACHINE)
    one, two = ((tmp_path / name / "picture.svg").read_text() for name in ("one", "two"))
    assert one == two
    assert not [line for line in one.splitlines() if line != line.rstrip()]


def test_the_lines_of_ours_are_told_from_those_of_peers(tmp_path: Path) -> None:
    keep("growth", GROWTH, tmp_path, MACHINE)
    drawn = (tmp_path / "growth.svg").read_text()
    assert drawn.count("stroke-dasharray") == 2  # the peer's line, and its place in the legend


def test_the_quickest_round_is_what_it_takes_when_nothing_disturbs() -> None:
    assert quick(Cost(wall=[9.0, 7.0, 800.0])) == 7


def test_growth_is_the_time_at_the_largest_over_that_at_the_smallest() -> None:
    figures = {("ours", 100.0): Cost(wall=[2.0]), ("ours", 10.0): Cost(wall=[1.0])}
    figures["ours", 1000.0] = Cost(wall=[5.0])
    assert grown(figures, "ours") == 5
    assert ratio(figures["ours", 100.0], figures["ours", 10.0]) == 2


def test_what_was_measured_once_is_drawn_over_everything() -> None:
    figures = {("ours", 1.0): Cost(wall=[3.0]), ("ours", 9.0): Cost(wall=[4.0])}
    figures["a peer", 1.0] = Cost(wall=[2.0])
    drawn = lines(figures, [1, 5, 9])
    assert drawn == {"ours": [(1, 3), (9, 4)], "a peer": [(1, 2), (5, 2), (9, 2)]}


def test_every_amount_of_every_line_is_measured() -> None:
    asked: list[str] = []

    def case(place: str) -> Batch:
        return lambda calls: asked.append(place)

    cases = {(line, amount): case(f"{line}{amount:g}") for line in "ab" for amount in (1.0, 2.0)}
    found = measured(cases, rounds=1, calls=1)
    assert set(found) == set(cases)
    assert set(asked) == {"a1", "a2", "b1", "b2"}
