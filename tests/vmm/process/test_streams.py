"""What a monitor writes: from bytes to lines and values, which grow while others read them."""

import asyncio
import json
import os
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generated_vmm import VmmTimeoutError
from generated_vmm.process import (
    AsyncRingBuffer,
    AsyncSerial,
    MonitorError,
    Piece,
    RingBuffer,
    Serial,
)
from generated_vmm.process.keeper.kernel import Descriptor
from generated_vmm.process.outlets import LONGEST_LINE, MetricsReader


def recent(*items: int, kept: int = 3) -> RingBuffer[int]:
    made = RingBuffer(int, kept)
    made.feed(lines(*items))
    return made


def lines(*items: int) -> bytes:
    return b"".join(b"%d\n" % each for each in items)


def serial(*received: bytes, kept: int = 100) -> Serial:
    made = Serial(kept)
    for each in received:
        made.feed(each)
    return made


def test_the_last_items_are_kept() -> None:
    numbers = recent(1, 2, 3, 4)
    assert (list(numbers), len(numbers), numbers.last, numbers.position) == ([2, 3, 4], 3, 4, 4)
    assert recent().last is None


def test_a_follower_sees_what_comes_and_then_the_end() -> None:
    numbers = recent(1)
    follower = numbers.follow()
    numbers.feed(lines(2))
    assert next(follower) == 2
    waiting = threading.Thread(target=lambda: seen.extend(follower))
    seen: list[int] = []
    waiting.start()
    for number in (3, 4):
        numbers.feed(lines(number))
    numbers.end()
    waiting.join()
    assert seen == [3, 4]


def test_a_follower_may_begin_with_what_is_kept() -> None:
    numbers = recent(1, 2, 3, 4)
    numbers.end()
    assert list(numbers.follow(since=0)) == [2, 3, 4]
    assert list(numbers.follow(since=3)) == [4]
    assert list(numbers.follow()) == []


async def test_a_task_follows_what_another_thread_adds() -> None:
    numbers = AsyncRingBuffer(int, 3)
    seen: list[int] = []

    async def follow() -> None:
        seen.extend([number async for number in numbers.follow()])

    task = asyncio.create_task(follow())
    await asyncio.sleep(0)
    for number in (1, 2):
        await asyncio.to_thread(numbers.feed, lines(number))
    await asyncio.to_thread(numbers.end)
    await task
    assert seen == [1, 2]


async def test_a_follower_that_is_cancelled_leaves_no_trace() -> None:
    numbers = AsyncRingBuffer(int, 3)
    task = asyncio.ensure_future(anext(numbers.follow()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not numbers._listeners


def test_a_loop_that_was_closed_does_not_disturb_the_others() -> None:
    numbers = AsyncRingBuffer(int, 3)
    loop = asyncio.new_event_loop()
    task = loop.create_task(numbers.wait(0))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    numbers.feed(lines(1))
    assert list(numbers) == [1]
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # on purpose


@given(st.lists(st.binary(max_size=20)), st.integers(1, 30), st.integers(0, 200))
def test_a_piece_is_what_is_left_from_a_position_on(
    received: list[bytes], kept: int, since: int
) -> None:
    console, everything = serial(*received, kept=kept), b"".join(received)
    piece = console.read(since)
    assert piece.end == console.position == len(everything)
    assert piece.data == everything[piece.start :]
    assert len(piece.data) <= kept
    oldest = max(0, len(everything) - kept)
    assert piece.start == min(max(since, oldest), len(everything))


def test_whoever_sees_a_position_in_another_thread_finds_the_data() -> None:
    seen: list[bytes] = []

    class Watched(Serial):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if self.__dict__.get("position", 0) > 3:
                seen.append(self.read(3).data)

    console = Watched(100)
    console.feed(b"abc")
    console.feed(b"def")
    assert set(seen) == {b"def"}


def test_what_is_expected_may_come_in_pieces() -> None:
    console = serial(b"log")
    threading.Thread(target=console.feed, args=(b"in: ",)).start()
    assert console.read_until(b"login:") == Piece(0, b"login: ")


def test_what_is_not_written_in_time_is_an_error() -> None:
    with pytest.raises(VmmTimeoutError, match=r"did not write b'login:' after b'boot' within 0.01"):
        serial(b"boot").read_until(b"login:", timeout=0.01)


def test_a_guest_that_writes_all_the_time_does_not_extend_the_time() -> None:
    class Talkative(Serial):
        def read(self, since: int = 0) -> Piece:
            piece = super().read(since)
            self.feed(b"boot")
            return piece

    with pytest.raises(VmmTimeoutError, match="did not write"):
        Talkative(100).read_until(b"$", timeout=0.01)


def test_what_can_no_longer_be_written_is_an_error() -> None:
    console = serial(b"panic")
    console.end()
    with pytest.raises(MonitorError, match="ended before its guest wrote b'login:'; last: b'panic"):
        console.read_until(b"login:")


async def test_tasks_expect_in_the_same_way() -> None:
    console = AsyncSerial(100)
    console.feed(b"log")
    task = asyncio.create_task(console.read_until(b"login:"))
    await asyncio.sleep(0)
    await asyncio.to_thread(console.feed, b"in:")
    assert await task == Piece(0, b"login:")
    with pytest.raises(VmmTimeoutError, match="did not write"):
        await console.read_until(b"$", timeout=0.01)
    console.end()
    with pytest.raises(MonitorError, match="ended before"):
        await console.read_until(b"$")
    assert [piece.data async for piece in console.follow(since=3)] == [b"in:"]


def test_there_is_no_input_without_a_monitor() -> None:
    with pytest.raises(MonitorError, match="takes no input"):
        serial().write(b"x")
    console, (reading, writing) = Serial(1), os.pipe()
    os.close(reading)
    console.input = Descriptor(int, writing)
    with pytest.raises(MonitorError, match="takes no input"):
        console.write(b"x")


def test_the_last_items_have_a_number_of_bytes() -> None:
    """A monitor that writes long lines does not fill the memory of its caller."""
    words = RingBuffer(str, 3, 10)
    words.feed(b"aaaa\nbbbb\ncccc\n")
    assert list(words) == ["bbbb", "cccc"]
    words.feed(b"over ten bytes\n")
    assert list(words) == []
    assert words.position == 4
    words.feed(b"d\n")
    assert words.last == "d"


# The lines that a monitor writes, from bytes to values


@given(st.lists(st.binary()))
def test_lines_do_not_depend_on_how_the_bytes_come(pieces: list[bytes]) -> None:
    in_pieces, at_once = RingBuffer(str, 100), RingBuffer(str, 100)
    for piece in pieces:
        in_pieces.feed(piece)
    at_once.feed(b"".join(pieces))
    assert list(in_pieces) == list(at_once)
    assert in_pieces.position == b"".join(pieces).count(b"\n")


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    lines = RingBuffer(str, 3, 2 * LONGEST_LINE)
    for _ in range(3):
        lines.feed(b"x" * LONGEST_LINE)
    lines.feed(b"\nnext\n")
    assert list(lines) == ["x" * LONGEST_LINE, "next"]


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    lines = RingBuffer(str, 3)
    lines.feed(b"a\xffb\n")
    assert list(lines) == ["a\ufffdb"]


def line(milliseconds: int, **groups: dict[str, Any]) -> str:
    return json.dumps({"utc_timestamp_ms": milliseconds, **groups})


def test_a_line_says_how_long_it_counted() -> None:
    reader = MetricsReader()
    first = reader.read(line(1_000))
    metrics = reader.read(line(3_000, block={"read_bytes": 4096}))
    assert metrics is not None
    assert metrics.at == datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)
    assert metrics.groups == {"block": {"read_bytes": 4096}}
    assert (first and first.seconds, metrics.seconds) == (None, 2.0)


def test_after_a_lost_line_it_is_not_known_how_long_was_counted() -> None:
    """A monitor that finds its fifo full writes a line in part, and begins to count anew."""
    reader = MetricsReader()
    whole = line(2_000, vcpu={"exit_io_in": 5})
    reader.read(line(1_000))
    assert reader.read(whole[: len(whole) // 2]) is None
    after, next_one = reader.read(line(3_000)), reader.read(line(4_000))
    assert after is not None
    assert next_one is not None
    assert (after.seconds, next_one.seconds) == (None, 1.0)


@pytest.mark.parametrize("milliseconds", [1_000, 500])
def test_a_clock_that_does_not_go_on_counts_no_time(milliseconds: int) -> None:
    reader = MetricsReader()
    reader.read(line(1_000))
    metrics = reader.read(line(milliseconds))
    assert metrics is not None
    assert metrics.seconds is None


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_what_is_no_metrics_is_none(text: str) -> None:
    assert MetricsReader().read(text) is None


@pytest.mark.parametrize("at", ["null", '"x"', "1e400", "99999999999999999", "{}", "true" * 2])
def test_metrics_of_no_time_are_none(at: str) -> None:
    assert MetricsReader().read('{"utc_timestamp_ms": ' + at + "}") is None
