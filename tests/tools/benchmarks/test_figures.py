"""A table shows a figure, what it was before and its target; a missed target is named."""

from __future__ import annotations

import math

import pytest

from tools.benchmarks.__main__ import REPOSITORY, SECTIONS
from tools.benchmarks.figures import Figure, of_targets, table

SHOWN = Figure("a request", 123.4, "µs")
MET = Figure("ours / theirs", 1.0, "", 1.0)
MISSED = Figure("ours / others", 1.01, "", 1.0, "Because.")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_table_shows_values_and_targets() -> None:
    head, _, *rows = map(cells, table("Requests", [SHOWN, MET, MISSED]).splitlines())
    assert head == ["Requests", "Measured", "Target"]
    assert rows == [
        ["a request", "123 µs", ""],
        ["ours / theirs", "1.00", "at most 1"],
        ["ours / others", "1.01", "at most 1: **missed**"],
    ]


def test_a_table_shows_what_was_measured_before() -> None:
    before = [Figure("a request", 150, "µs")]
    head, _, *rows = map(cells, table("Requests", [SHOWN, MET], before).splitlines())
    assert head == ["Requests", "Measured", "Before", "Target"]
    assert rows == [
        ["a request", "123 µs", "150 µs", ""],
        ["ours / theirs", "1.00", "", "at most 1"],
    ]


def test_a_missed_target_is_named_with_its_reason() -> None:
    assert of_targets([SHOWN, MET, MISSED]) == (
        "1 of 2 targets missed:\n\n- ours / others: 1.01, target at most 1. Because.\n"
    )


def test_what_is_no_number_misses_its_target() -> None:
    assert Figure("a ratio", math.nan, "", 1.0).is_missed


def test_a_figure_is_read_as_it_was_written() -> None:
    assert Figure.from_json(MISSED.to_json()) == MISSED


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_is_a_module(section: str) -> None:
    assert (REPOSITORY / "tools" / "benchmarks" / f"{section}.py").is_file()
