"""What a store could not take is written once it answers: bounded in number, in time and at the
end of the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from fastapi_oidc import Clock, Code, Event, EventName, SessionError
from fastapi_oidc.flows import ending_writer
from fastapi_oidc.flows.ending_writer import EndingWriter
from fastapi_oidc.flows.events import Announcer
from fastapi_oidc.session.keeper import Keeper
from fastapi_oidc.session.model import EndReason, PreviousSession
from tests.oidc.interleaving import Gate
from tests.oidc.world import Time

OFTEN = 200
HOUR = 3600


class Ends:
    """The part of a keeper that is used: takes no ending of the sessions in `refused`."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.ended: list[str] = []
        self.attempts = 0
        self.gate: Gate | None = None

    async def end_previous(self, previous: PreviousSession, reason: EndReason) -> None:
        self.attempts += 1
        if self.gate is not None:
            await self.gate.passed()
        if previous.id in self.refused:
            raise SessionError(Code.SESSION_REVOCATION_UNAVAILABLE)
        self.ended.append(previous.id)


class Bench:
    """A writer, the keeper it writes to, and what it announces."""

    def __init__(self) -> None:
        self.time, self.keeper = Time(), Ends()
        self.events: list[Event] = []
        clock, announcer = Clock(read=self.time), Announcer(self.events.append)
        self.writer = EndingWriter(cast("Keeper[Any]", self.keeper), clock, announcer)

    async def end(self, *ids: str, seconds: int = HOUR) -> None:
        for id in ids:
            await self.writer.end(self.session(id, seconds), "signed_out")

    def session(self, id: str, seconds: int = HOUR) -> PreviousSession:
        return PreviousSession(
            id=id, issuer="op", client_id="app", expires_at=int(self.time.now) + seconds
        )

    async def until_left(self, count: int) -> None:
        await self._until(lambda: len(self.writer) == count)

    async def until_attempts(self, count: int) -> None:
        await self._until(lambda: self.keeper.attempts >= count)

    async def _until(self, holds: Callable[[], bool]) -> None:
        for _ in range(OFTEN):
            if holds():
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{len(self.writer)} left after {self.keeper.attempts} attempts")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    bench.keeper.refused.clear()
    await bench.writer.aclose()


async def test_what_the_store_takes_is_written_at_once(bench: Bench) -> None:
    await bench.end("a")
    assert (bench.keeper.ended, len(bench.writer)) == (["a"], 0)


async def test_one_that_the_store_does_not_take_keeps_no_other_waiting(bench: Bench) -> None:
    bench.keeper.refused = {"a", "b"}
    await bench.end("a", "b")
    bench.keeper.refused = {"a"}
    bench.writer.wake()
    await bench.until_attempts(3)
    bench.writer.wake()
    await bench.until_left(1)
    assert bench.keeper.ended == ["b"]


async def test_an_ending_that_comes_while_others_are_written_is_written_too(bench: Bench) -> None:
    bench.keeper.refused = {"a", "b"}
    await bench.end("a")
    gate = bench.keeper.gate = Gate()
    bench.writer.wake()
    await gate.until_reached()
    bench.keeper.gate = None
    await bench.end("b")
    bench.keeper.refused.clear()
    gate.opened.set()
    await bench.until_left(0)
    assert sorted(bench.keeper.ended) == ["a", "b"]


async def test_the_same_session_ends_once(bench: Bench) -> None:
    bench.keeper.refused = {"a"}
    await bench.end("a", "a")
    bench.keeper.refused.clear()
    bench.writer.wake()
    await bench.until_left(0)
    assert bench.keeper.ended == ["a"]


async def test_a_session_whose_time_is_over_needs_no_ending(bench: Bench) -> None:
    bench.keeper.refused = {"a"}
    await bench.end("a", seconds=60)
    bench.time.advance(60)
    bench.writer.wake()
    await bench.until_left(0)
    assert (bench.keeper.ended, bench.keeper.attempts) == ([], 1)


async def test_their_number_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending_writer, "LIMIT", 2)
    bench.keeper.refused = {"a", "b", "c"}
    await bench.end("a", "b", "c")
    bench.keeper.refused.clear()
    bench.writer.wake()
    await bench.until_left(0)
    assert bench.keeper.ended == ["b", "c"]


async def test_it_is_tried_again_after_a_pause(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FIRST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(ending_writer, name, 0)
    bench.keeper.refused = {"a"}
    await bench.end("a")
    await bench.until_attempts(3)
    bench.keeper.refused.clear()
    await bench.until_left(0)
    assert [str(event.name) for event in bench.events] == ["session.not_removed", "session.removed"]
    assert {(event.session_id, event.at) for event in bench.events} == {("a", bench.time.now)}
    assert bench.events[0].code is Code.SESSION_REVOCATION_UNAVAILABLE


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were begun, each of which is over at once."""
    begun: list[float] = []

    def over_at_once(seconds: float) -> asyncio.Timeout:
        begun.append(seconds)
        return asyncio.timeout_at(0)

    monkeypatch.setattr(asyncio, "timeout", over_at_once)
    return begun


async def test_pauses_double_up_to_the_longest(bench: Bench, pauses: list[float]) -> None:
    bench.keeper.refused = {"a"}
    await bench.end("a")
    await bench.until_attempts(6)
    assert pauses[:5] == [1, 2, 4, 5, 5]


async def test_a_process_that_ends_does_not_pause_for_long(
    bench: Bench, pauses: list[float]
) -> None:
    bench.keeper.refused = {"a"}
    await bench.end("a")
    closing = asyncio.create_task(bench.writer.aclose())
    await asyncio.sleep(0)
    begun_before = len(pauses)
    await bench.until_attempts(begun_before + 4)
    bench.keeper.refused.clear()
    await closing
    assert set(pauses[begun_before:]) == {0.5}


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


def test_what_one_event_loop_left_another_one_writes() -> None:
    bench = Bench()
    bench.keeper.refused = {"a"}
    asyncio.run(bench.end("a"))
    bench.keeper.refused.clear()
    asyncio.run(bench.writer.aclose())
    assert bench.keeper.ended == ["a"]


async def test_an_attempt_whose_caller_is_cancelled_goes_on_to_its_end(bench: Bench) -> None:
    bench.keeper.gate = gate = Gate()
    caller = asyncio.create_task(bench.end("a"))
    await gate.until_reached()
    caller.cancel()
    closing = asyncio.create_task(bench.writer.aclose())
    await asyncio.wait([caller])
    assert bench.keeper.ended == []
    gate.opened.set()
    await closing
    assert bench.keeper.ended == ["a"]


async def test_what_an_attempt_without_a_caller_could_not_write_is_owed(bench: Bench) -> None:
    bench.keeper.gate, bench.keeper.refused = Gate(), {"a"}
    caller = asyncio.create_task(bench.end("a"))
    await bench.keeper.gate.until_reached()
    caller.cancel()
    bench.keeper.gate.opened.set()
    await bench.until_left(1)
    assert [event.name for event in bench.events] == ["session.not_removed"]
