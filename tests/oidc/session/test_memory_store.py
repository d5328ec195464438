"""The store in memory: what it does when it is full, and when values end."""

from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.memory_store import MemoryStore
from fastapi_oidc.session.store import Cell, Stored
from tests.oidc.protocol.examples import refused
from tests.oidc.session.conftest import MovableClock
from tests.oidc.session.examples import NOW
from tests.oidc.session.values import KEY


def until(second: int, value: bytes = b"one") -> Cell:
    return Cell(value, NOW + second)


async def test_a_value_ends_at_its_second_and_ages_until_then(moving: MovableClock) -> None:
    store = MemoryStore(clock=moving.clock)
    await store.swap(KEY, b"", until(10))
    moving.second = NOW + 9
    assert await store.read([KEY]) == [b"one"]
    assert await store.swap(KEY, None, until(10)) == Stored(b"one", 9)
    moving.second = NOW - 5
    assert await store.swap(KEY, None, until(10)) == Stored(b"one", -5), "the clock was set back"
    moving.second = NOW + 10
    assert await store.read([KEY]) == [b""]
    assert await store.swap(KEY, None, until(10)) == Stored(b"", 0)


async def test_a_full_store_takes_no_new_key_and_loses_nothing(moving: MovableClock) -> None:
    store = MemoryStore(clock=moving.clock, max_values=2)
    for key, second in (("a", 10), ("b", 20)):
        await store.swap(key, b"", until(second))
    with refused(Code.SESSION_STORE_UNAVAILABLE, SessionError):
        await store.swap("c", b"", until(30))
    assert await store.swap("a", b"one", until(10, b"two")) is None
    assert await store.read(["a", "b", "c"]) == [b"two", b"one", b""]
    await store.swap("b", b"one", Cell(b"", 0))
    assert await store.swap("c", b"", until(30)) is None
    moving.second = NOW + 10
    assert await store.swap("d", b"", until(30)) is None, "in the place of one that has ended"


async def test_a_store_that_evicts_drops_the_value_that_ends_first(moving: MovableClock) -> None:
    store = MemoryStore(clock=moving.clock, max_values=2, evicts=True)
    for key, second in (("a", 20), ("b", 10), ("c", 30)):
        assert await store.swap(key, b"", until(second)) is None
    assert await store.read(["a", "b", "c"]) == [b"one", b"", b"one"]


@pytest.mark.parametrize("evicts", [False, True])
async def test_values_that_have_ended_do_not_pile_up(moving: MovableClock, evicts: bool) -> None:
    store = MemoryStore(clock=moving.clock, max_values=100, evicts=evicts)
    for number in range(1000):
        moving.second += 1
        await store.swap(str(number), b"", Cell(b"one", int(moving.second) + 10))
    assert len(store._values) <= 11
