"""The figures of the documentation are those that were measured last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.benchmarks import figures
from tools.benchmarks.targets import Target

REPOSITORY = Path(__file__).parents[3]
FOLDER = REPOSITORY / figures.FOLDER
KEPT = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]


@pytest.mark.parametrize("page", figures.PAGES, ids=str)
def test_a_page_has_the_figures_that_were_measured_last(page: Path) -> None:
    text = (REPOSITORY / page).read_text()
    assert "<!-- figures: " in text
    assert figures.rewritten(text, FOLDER) == text


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept["title"])
def test_whatever_was_missed_is_said_to_be(kept: dict[str, Any]) -> None:
    lines = (FOLDER / "index.md").read_text().splitlines()
    for target in kept["targets"]:
        said = [line for line in lines if line.startswith(f"| {target['what']} | ")]
        assert said
        assert target["met"] or any(line.endswith(": **missed** |") for line in said)


def test_every_picture_has_targets() -> None:
    assert len(KEPT) == len(list(FOLDER.glob("*.svg"))) + 1
    assert all(kept["targets"] for kept in KEPT)


def kept_in(folder: Path, name: str, *targets: Target) -> None:
    figures.keep(name, {"title": name.title()}, targets, "2026-11-21, a processor", folder)


def test_a_page_is_written_from_what_is_kept(tmp_path: Path) -> None:
    met, missed = Target("size", 2.5, 16, "kB"), Target("import", 1.714, 1)
    kept_in(tmp_path, "growth", met, missed)
    page = "Before.\n<!-- figures: targets -->\nstale\n<!-- figures end -->\nAfter.\n"
    written = figures.rewritten(page, tmp_path)
    assert "stale" not in written
    assert "Of 2 targets 1 are **missed**:\n\n- import\n" in written
    assert "| **[Growth](growth.json)**, 2026-11-21, a processor | | |\n" in written
    assert "| size | 2.50 kB | at most 16 kB |\n" in written
    assert "| import | 1.71 | at most 1: **missed** |\n" in written
    assert figures.rewritten(written, tmp_path) == written


def test_what_a_picture_has_is_repeated_only_where_it_came_out_otherwise(tmp_path: Path) -> None:
    kept_in(tmp_path, "load", Target("rate", 0.9, 1), Target("p99", 0.9, 1))
    kept_in(tmp_path, figures.BENCH, Target("rate", 0.8, 1), Target("p99", 1.1, 1))
    written = figures.rewritten("<!-- figures: targets -->\n<!-- figures end -->\n", tmp_path)
    assert written.count("| rate |") == 1
    assert written.count("| p99 |") == 2
    assert written.index("[Load]") < written.index("[Bench]")


def test_figures_that_nobody_measures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="guesses"):
        figures.rewritten("<!-- figures: guesses -->\n<!-- figures end -->\n", tmp_path)
