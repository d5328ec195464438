"""What a store could not take is written once it answers: bounded in number, in time and at the
end of the process."""

from __future__ import annotations

import asyncio

import pytest

from fastapi_oidc import Code
from fastapi_oidc.flows import ending_writer
from tests.oidc.flows.ending_bench import Bench
from tests.oidc.interleaving import Gate


async def test_what_the_store_takes_is_written_at_once(bench: Bench) -> None:
    await bench.end("a")
    assert (bench.keeper.ended, len(bench.writer)) == (["a"], 0)


async def test_two_at_once_are_written_both(bench: Bench) -> None:
    bench.keeper.gate = Gate()
    both = [asyncio.create_task(bench.end(id)) for id in ("a", "b")]
    await bench.until_attempts(2)
    bench.keeper.gate.opened.set()
    await asyncio.gather(*both)
    assert sorted(bench.keeper.ended) == ["a", "b"]


async def test_one_that_is_written_later_has_the_reason_that_it_had(bench: Bench) -> None:
    bench.keeper.refused = {"a"}
    await bench.writer.end(bench.session("a"), "revoked")
    bench.keeper.refused.clear()
    bench.writer.wake()
    await bench.until_left(0)
    assert bench.keeper.reasons == ["revoked"]


async def test_one_that_the_store_does_not_take_keeps_no_other_waiting(bench: Bench) -> None:
    bench.keeper.refused = {"a", "b"}
    await bench.end("a", "b")
    bench.keeper.refused = {"a"}
    bench.writer.wake()
    await bench.until_attempts(3)
    bench.writer.wake()
    await bench.until_left(1)
    assert bench.keeper.ended == ["b"]


async def tried_again(bench: Bench) -> Gate:
    """What holds the second attempt of "a" back, meanwhile "b" was refused too."""
    bench.keeper.refused = {"a", "b"}
    await bench.end("a")
    gate = bench.keeper.gate = Gate()
    bench.writer.wake()
    await gate.until_reached()
    bench.keeper.gate = None
    await bench.end("b")
    return gate


async def test_an_ending_that_comes_while_others_are_written_is_written_too(bench: Bench) -> None:
    gate = await tried_again(bench)
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


async def test_a_process_that_starts_anew_pauses_as_before(
    bench: Bench, pauses: list[float]
) -> None:
    bench.keeper.refused = {"a"}
    await bench.end("a")
    bench.keeper.refused.clear()
    await bench.writer.aclose()
    pauses.clear()
    bench.keeper.refused = {"b"}
    await bench.end("b")
    await bench.until_attempts(bench.keeper.attempts + 1)
    assert pauses[0] == 1


async def test_endings_share_their_pauses(bench: Bench, pauses: list[float]) -> None:
    bench.keeper.refused = {"a", "b"}
    await bench.end("a", "b")
    await bench.until_attempts(6)
    assert pauses[:3] == [1, 2, 4]


@pytest.mark.parametrize("is_taken", [True, False])
async def test_one_that_is_given_up_while_it_is_written_stays_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_taken: bool
) -> None:
    monkeypatch.setattr(ending_writer, "LIMIT", 1)
    gate = await tried_again(bench)
    bench.keeper.refused = {"b"} if is_taken else {"a", "b"}
    attempts = bench.keeper.attempts
    gate.opened.set()
    bench.writer.wake()
    await bench.until_attempts(attempts + 1)
    bench.keeper.refused.clear()
    bench.writer.wake()
    await bench.until_left(0)
    assert bench.keeper.ended == (["a", "b"] if is_taken else ["b"])


def test_what_an_event_loop_that_stands_still_left_another_one_writes() -> None:
    bench = Bench()
    bench.keeper.refused = {"a"}
    with asyncio.Runner() as standing:
        standing.run(bench.end("a"))
        bench.keeper.refused.clear()
        asyncio.run(bench.writer.aclose())
    assert bench.keeper.ended == ["a"]


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
