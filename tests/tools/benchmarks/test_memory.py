"""The memory of sessions, measured with a few."""

from __future__ import annotations

import pytest

from tools.benchmarks import memory


def test_the_memory_of_a_session_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SESSIONS", 20)
    monkeypatch.setattr(memory, "REMEMBERED", 10)
    figures = list(memory.figures())
    assert [figure.unit for figure in figures] == ["kB"] * 4
