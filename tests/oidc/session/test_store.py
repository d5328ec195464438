"""What `move` asks of a store, and what it asks of the function that decides."""

from __future__ import annotations

import pytest

from fastapi_oidc.session.memory_store import MemoryStore
from fastapi_oidc.session.store import Cell, Store, Stored
from tests.oidc.session.conftest import MovableClock
from tests.oidc.session.examples import NOW
from tests.oidc.session.values import KEY

LATER = NOW + 600
ONE, TWO = Cell(b"one", LATER), Cell(b"two", LATER)


class Watched(MemoryStore):
    """Notes what it is asked; `meanwhile` is what another process stores before each swap."""

    def __init__(self, moving: MovableClock, *meanwhile: bytes) -> None:
        super().__init__(clock=moving.clock)
        self.asked: list[tuple[bytes | None, bytes]] = []
        self.meanwhile = list(meanwhile)

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        self.asked.append((before, after.value))
        if self.meanwhile and before is not None:
            value, other = (await self.read([key]))[0], self.meanwhile.pop(0)
            await super().swap(key, value, Cell(other, LATER))
        return await super().swap(key, before, after)


class Appending:
    """Appends a letter, up to three; notes what it was called with."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, float]] = []

    def __call__(self, value: bytes, age: float) -> Cell | None:
        self.seen.append((value, age))
        return None if len(value) >= 3 else Cell(value + b"x", LATER)


@pytest.fixture
def change() -> Appending:
    return Appending()


async def stored(store: Store) -> bytes:
    return (await store.read([KEY]))[0]


async def test_who_knows_the_value_asks_once(moving: MovableClock, change: Appending) -> None:
    store = Watched(moving)
    assert await store.move(KEY, change, known=b"") == b"x"
    assert await store.move(KEY, change, known=b"x") == b"xx" == await stored(store)
    assert store.asked == [(b"", b"x"), (b"x", b"xx")]
    assert change.seen == [(b"", 0), (b"x", 0)]


async def test_who_does_not_know_it_asks_twice_and_hears_its_age(
    moving: MovableClock, change: Appending
) -> None:
    store = Watched(moving)
    await store.move(KEY, lambda *_: Cell(b"a", LATER))
    moving.second += 7
    store.asked.clear()
    assert await store.move(KEY, change) == b"ax" == await stored(store)
    assert store.asked == [(None, b""), (b"a", b"ax")]
    assert change.seen == [(b"a", 7)]


async def test_a_value_that_is_to_stay_is_returned_as_it_is(
    moving: MovableClock, change: Appending
) -> None:
    store = Watched(moving)
    await store.move(KEY, lambda *_: Cell(b"aaa", LATER))
    moving.second += 7
    store.asked.clear()
    for known in (None, b"aaa"):  # which may be decided by its age, so it is asked for
        assert await store.move(KEY, change, known=known) == b"aaa" == await stored(store)
    assert store.asked == [(None, b"")] * 2
    assert change.seen == [(b"aaa", 7), (b"aaa", 0), (b"aaa", 7)]


async def test_a_value_is_deleted_by_moving_to_nothing(moving: MovableClock) -> None:
    store = Watched(moving)
    await store.move(KEY, lambda *_: ONE)
    assert await store.move(KEY, lambda *_: Cell(b"", 0)) == b"" == await stored(store)
