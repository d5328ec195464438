"""A table shows a figure, what it was before and its target; a missed target is named."""

import math
from pathlib import Path

import pytest

from tools.benchmarks import memory
from tools.benchmarks.__main__ import figures_of
from tools.benchmarks.figures import Figure, of_targets, table
from tools.benchmarks.rounds import Cost, costs

SHOWN = Figure("a request", 123.4, "µs")
MET = Figure("ours / theirs", 1.0, "", 1.0)
MISSED = Figure("ours / others", 1.01, "", 1.0, "Because.")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_table_shows_values_targets_and_what_was_measured_before() -> None:
    before = [Figure("a request", 150, "µs")]
    for earlier, column in ((before, ["150 µs", "not measured", "not measured"]), ([], None)):
        shown = table("Requests", [SHOWN, MET, MISSED], earlier)
        head, _, *rows = map(cells, shown.splitlines())
        assert head == ["Requests", "Measured", *(["Before"] if column else []), "Target"]
        assert [row.pop(2) for row in rows if column] == (column or [])
        assert rows == [
            ["a request", "123 µs", ""],
            ["ours / theirs", "1.00", "at most 1"],
            ["ours / others", "1.01", "at most 1: **missed**"],
        ]


def test_what_is_no_longer_measured_is_shown() -> None:
    shown = table("Requests", [MET], [MET, SHOWN]).splitlines()[-1]
    assert cells(shown) == ["a request", "not measured", "123 µs", ""]


def test_another_checkout_is_measured_by_its_own_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section = tmp_path / "tools" / "benchmarks" / "section.py"
    section.parent.mkdir(parents=True)
    for package in (section.parent, section.parent.parent):
        (package / "__init__.py").touch()
    section.write_text(f"print({MISSED.to_json()!r})")
    assert figures_of("requests", tmp_path) == [MISSED]
    section.write_text("raise SystemExit(1)")
    assert figures_of("requests", tmp_path) is None
    assert f"{tmp_path} cannot measure requests" in capsys.readouterr().err


def test_a_missed_target_is_named_with_its_reason() -> None:
    assert of_targets([SHOWN, MET, MISSED]) == (
        "1 of 2 targets missed:\n\n- ours / others: 1.01, target at most 1. Because.\n"
    )


def test_what_is_no_number_misses_its_target() -> None:
    assert Figure("a ratio", math.nan, "", 1.0).is_missed


def test_a_figure_is_read_as_it_was_written() -> None:
    assert Figure.from_json(MISSED.to_json()) == MISSED


# Cases are measured in turns, and ratios are taken within each round


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


# The memory of sessions, measured with a few


def test_the_memory_of_a_session_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SESSIONS", 20)
    monkeypatch.setattr(memory, "REMEMBERED", 10)
    figures = list(memory.figures())
    assert [figure.unit for figure in figures] == ["kB"] * 4
