"""`tools.benchmarks.curves`: each picture by itself, and a status that says what was missed."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.benchmarks.curves.pictures import Lines
from tools.benchmarks.targets import Target

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the peers
    from tools.benchmarks.curves import command


def picture(figure: float) -> Callable[[int], Lines]:
    """One whose target is met up to 1."""
    return lambda most: Lines(
        title="Growth",
        x="sessions",
        y="µs",
        lines={"ours": [(1, 1.0), (most, figure)]},
        note="Made up.",
        targets=[Target("growth", figure, 1)],
    )


@pytest.mark.parametrize(("figure", "status"), [(1.0, 0), (1.5, 1)])
def test_the_status_says_whether_a_target_was_missed(
    figure: float, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "PICTURES", {"growth": picture(figure)})
    options = ["--in-this-process", "--most", "10", "--folder", str(tmp_path / "new"), "growth"]
    assert command.main(options) == status
    drawn = json.loads((tmp_path / "new/growth.json").read_text())
    assert drawn["lines"]["ours"] == [[1, 1.0], [10, figure]]


def test_every_picture_is_drawn_although_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def alone(name: str, most: int, folder: Path) -> bool:
        asked.append(name)
        return len(asked) != 2

    monkeypatch.setattr(command, "alone", alone)
    assert command.main(["--folder", str(tmp_path)]) == 1
    assert asked == list(command.PICTURES)
    assert f"missed a target, or failed: {asked[1]}\n" in capsys.readouterr().err


def test_a_picture_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["storm"])
    assert "there is no storm" in capsys.readouterr().err


def test_a_picture_that_takes_too_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def endless(_: object, *, start_new_session: bool) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-c", "import signal; signal.pause()"]
        started.append(popen(program, start_new_session=start_new_session))
        return started[0]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", endless)
    monkeypatch.setattr(command, "LONGEST", 0.01)
    assert not command.alone("storms", 10, tmp_path)
    assert started[0].returncode is not None
    assert "was given up" in capsys.readouterr().err


def test_amounts_beyond_the_most_are_left_out() -> None:
    assert command.up_to(1000, (100, 1000, 10_000)) == (100, 1000)
