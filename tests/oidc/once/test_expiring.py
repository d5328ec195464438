from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastapi_oidc.clock import Clock
from fastapi_oidc.once import Expiring

LONG_ENOUGH_TO_DO_HARM = 0.1
"""Seconds that one thread waits for another, which waits for the first when all is well."""


class Time:
    def __init__(self) -> None:
        self.now = 1000

    def clock(self) -> Clock:
        return Clock(read=lambda: self.now)


def test_a_value_is_there_until_its_second() -> None:
    time = Time()
    kept: Expiring[str, int] = Expiring(time.clock())
    kept.set("one", 1, ends=1010)
    time.now = 1009
    assert kept.get("one") == 1
    assert "one" in kept
    time.now = 1010
    assert kept.get("one") is None
    assert "one" not in kept


def test_a_value_that_is_none_is_told_from_no_value() -> None:
    kept: Expiring[str, None] = Expiring(Time().clock())
    kept.set("one", None, ends=2000)
    assert kept.get("one", "absent") is None
    assert kept.get("other", "absent") == "absent"


def test_a_later_end_replaces_an_earlier_one_and_the_other_way_round() -> None:
    time = Time()
    kept: Expiring[str, int] = Expiring(time.clock())
    kept.set("longer", 1, ends=1010)
    kept.set("longer", 2, ends=1100)
    kept.set("shorter", 1, ends=1100)
    kept.set("shorter", 2, ends=1010)
    time.now = 1050
    assert (kept.get("longer"), kept.get("shorter")) == (2, None)


def test_room_is_made_by_one_that_has_ended() -> None:
    time = Time()
    kept: Expiring[int, int] = Expiring(time.clock())
    for number in range(100):
        kept.set(number, number, ends=1010)
    assert not kept.make_room(100, steps=1000)
    assert len(kept) == 100
    time.now = 1010
    assert kept.make_room(100, steps=1000)
    assert len(kept) == 99
    assert kept.make_room(100, steps=0)


def test_room_is_looked_for_behind_seconds_that_nothing_ends_in_any_more() -> None:
    time = Time()
    kept: Expiring[int, int] = Expiring(time.clock())
    for number in range(100):
        kept.set(number, number, ends=1001 + number)
    for number in range(50):
        kept.pop(number)
    time.now = 2000
    assert not kept.make_room(50, steps=50)
    assert kept.make_room(50, steps=1)


def test_what_has_ended_leaves_with_later_writes_and_never_all_at_once() -> None:
    time = Time()
    kept: Expiring[int, int] = Expiring(time.clock())
    for number in range(1000):
        kept.set(number, number, ends=1010)
    time.now = 1010
    kept.set(-1, 0, ends=2000)
    assert len(kept) > 990
    for number in range(-300, -1):
        kept.set(number, 0, ends=2000)
    assert len(kept) == 300


def test_beyond_the_limit_the_entry_that_ends_first_goes() -> None:
    kept: Expiring[str, int] = Expiring(Time().clock(), max_entries=2)
    kept.set("long", 1, ends=1200)
    kept.set("short", 1, ends=1100)
    kept.set("longer", 1, ends=1300)
    assert [name for name in ("long", "short", "longer") if name in kept] == ["long", "longer"]


def test_of_those_that_end_in_one_second_the_one_written_first_goes() -> None:
    kept: Expiring[str, int] = Expiring(Time().clock(), max_entries=3)
    for name in ("one", "two", "three", "one", "four", "five"):
        kept.set(name, 1, ends=1100)
    assert [name for name in ("one", "two", "three", "four", "five") if name in kept] == [
        "one",
        "four",
        "five",
    ]


def test_a_popped_value_is_gone() -> None:
    kept: Expiring[str, int] = Expiring(Time().clock())
    kept.set("one", 1, ends=2000)
    assert (kept.pop("one"), kept.pop("one"), kept.get("one")) == (1, None, None)


def test_what_is_replaced_and_popped_again_and_again_takes_no_room() -> None:
    kept: Expiring[object, int] = Expiring(Time().clock())
    kept.set("ends first", 0, ends=1001)
    tracemalloc.start()
    for number in range(20_000):
        kept.set("replaced", number, ends=2000 + number % 100)
        kept.set(number, number, ends=3000 + number % 100)
        kept.pop(number)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 100_000, "bytes for two entries and two hundred seconds"


@pytest.mark.parametrize("limit", [None, 50])
def test_what_ends_later_and_later_leaves_no_second_behind(limit: int | None) -> None:
    """A session for each second of a day, which is used again, refreshed or signed out."""
    kept: Expiring[str, int] = Expiring(Time().clock(), max_entries=limit)
    tracemalloc.start()
    for second in range(20_000):
        kept.set("moved", second, ends=100_000 + second)
        kept.set("popped", second, ends=100_000 + second)
        kept.pop("popped")
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 50_000, "bytes for one entry"


writes = st.lists(
    st.tuples(st.integers(0, 5), st.integers(990, 1030), st.sampled_from(["set", "pop", "wait"])),
    max_size=60,
)


@given(writes)
def test_it_is_a_dictionary_of_what_has_not_ended(operations: list[tuple[int, int, str]]) -> None:
    time = Time()
    kept: Expiring[int, int] = Expiring(time.clock())
    plain: dict[int, tuple[int, int]] = {}
    for count, (key, ends, operation) in enumerate(operations):
        if operation == "set":
            kept.set(key, count, ends=ends)
            plain[key] = (ends, count)
        elif operation == "pop":
            kept.pop(key)
            plain.pop(key, None)
        else:
            time.now += 3
        expected = {name: value for name, (end, value) in plain.items() if time.now < end}
        assert {name: kept.get(name) for name in range(6) if name in kept} == expected


class Interrupted:
    """A key that lets something happen when it is looked for the time `at`."""

    def __init__(self, at: int, meanwhile: Callable[[], None]) -> None:
        self._at, self._meanwhile, self._times = at, meanwhile, 0

    def __hash__(self) -> int:
        self._times += 1
        if self._times == self._at:
            self._meanwhile()
        return 1


@pytest.mark.parametrize("limit", [None, 1000])
@pytest.mark.parametrize("at", range(1, 5))
def test_two_threads_may_write_at_once(at: int, limit: int | None) -> None:
    """The one's entry is to end in a second that the other one finds over, and empty."""
    time = Time()
    kept: Expiring[object, int] = Expiring(time.clock(), max_entries=limit)
    kept.set("first", 1, ends=1001)
    kept.pop("first")
    time.now = 1002
    other = Thread(target=kept.set, args=("two", 2), kwargs={"ends": 1010})

    def meanwhile() -> None:
        other.start()
        other.join(LONG_ENOUGH_TO_DO_HARM)

    one = Interrupted(at, meanwhile)
    kept.set(one, 1, ends=1001)
    other.join()
    assert kept.get("two") == 2
    kept.pop(one)
    kept.prune(9)
    assert len(kept) == 1
