"""Endings that no store has taken when their process ends, or owes too many."""

from __future__ import annotations

import asyncio

import pytest

from fastapi_oidc import EventName
from fastapi_oidc.flows import ending_writer
from tests.oidc.flows.ending_bench import Bench
from tests.oidc.interleaving import PATIENCE, Gate


async def test_a_process_that_ends_tries_until_the_store_takes_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending_writer, "LAST_PAUSE", 0)
    bench.keeper.refused = {"a"}
    await bench.end("a")
    closing = asyncio.create_task(bench.writer.aclose())
    await bench.until_attempts(4)
    bench.keeper.refused.clear()
    await closing
    assert bench.keeper.ended == ["a"]


def given_up(bench: Bench) -> list[tuple[str | None, str]]:
    name = EventName.SESSION_REMOVAL_GIVEN_UP
    return [(event.session_id, event.explanation) for event in bench.events if event.name == name]


async def test_one_that_is_given_up_for_others_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending_writer, "LIMIT", 2)
    bench.keeper.refused = {"a", "b", "c"}
    await bench.end("a", "b")
    assert given_up(bench) == []
    await bench.end("c")
    assert given_up(bench) == [("a", "2 others are to be told to the store")]


async def test_those_that_the_process_leaves_behind_are_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending_writer, "LAST_ATTEMPTS", 0)
    bench.keeper.refused = {"a", "b", "over"}
    await bench.end("a", "b")
    await bench.end("over", seconds=0)
    bench.keeper.gate = Gate()
    await bench.writer.aclose()
    bench.keeper.gate = None
    why = "the process ended before the store answered"
    assert given_up(bench) == [("a", why), ("b", why)]
    assert {event.at for event in bench.events} == {int(bench.time.now)}


async def test_a_store_that_is_mute_does_not_hold_the_end_of_the_process_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending_writer, "LAST_ATTEMPTS", 0)
    bench.keeper.refused = {"a"}
    await bench.end("a")
    bench.keeper.gate = Gate()
    await bench.writer.aclose()
    assert len(bench.writer) == 1
    bench.keeper.gate = None


async def test_nor_does_an_attempt_that_is_under_way(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending_writer, "LAST_ATTEMPTS", 0)
    bench.keeper.gate = gate = Gate()
    caller = asyncio.create_task(bench.end("a"))
    await gate.until_reached()
    async with asyncio.timeout(PATIENCE):
        await bench.writer.aclose()
    gate.opened.set()
    await caller
    assert bench.keeper.ended == ["a"]
