"""The contract of `Store`, for every implementation."""

import asyncio
import secrets
import string
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.session.own_store import store_of
from fastapi_oidc.session.sql import SQLStore
from fastapi_oidc.session.store import Cell, Change, MemoryStore, Store, Stored
from tests.oidc.session.conftest import url_of
from tests.oidc.session.test_own_store import Dictionary

SHARED = ["redis", "postgresql", "sqlite"]
LATER = int(time.time()) + 3600
LONG_AGO = 1
MOVERS = 12


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Store]:
    if isinstance(store, SQLStore):
        await store.create_tables()
    yield store
    await store.aclose()


def shared_url(request: pytest.FixtureRequest, kind: str) -> str:
    return str(request.getfixturevalue("redis_url")) if kind == "redis" else url_of(request, kind)


@pytest.fixture(params=["memory", "own", *SHARED])
def given(request: pytest.FixtureRequest) -> Any:
    match request.param:
        case "memory":
            return MemoryStore()
        case "own":
            return Dictionary()
        case kind:
            return shared_url(request, kind)


@pytest.fixture
async def store(given: Any) -> AsyncIterator[Store]:
    async with opened(store_of(given, Clock())) as store:
        yield store


@pytest.fixture
def key() -> str:
    """Keeps the values of one test apart from those of the others."""
    return f"session:{secrets.token_hex(8)}"


async def found(store: Store, key: str) -> bytes:
    """The value, which both operations find."""
    (value,) = await store.read([key])
    seen = await store.swap(key, None, Cell(b"nothing", LATER))
    assert seen is not None
    assert seen.value == value
    return value


async def test_several_values_are_read_together(store: Store, key: str) -> None:
    for number in (1, 3):
        await store.swap(f"{key}{number}", b"", Cell(b"%d" % number, LATER))
    keys = [f"{key}{number}" for number in (3, 2, 1)]
    assert list(await store.read(keys)) == [b"3", b"", b"1"]
    assert list(await store.read([])) == []


async def test_other_values_are_read_together_with_a_swap(store: Store, key: str) -> None:
    others = [f"{key}{number}" for number in (1, 2, 3)]
    for other in others[::2]:
        await store.swap(other, b"", Cell(other.encode(), LATER))
    values = [others[0].encode(), b"", others[2].encode()]
    for before, expected in ((None, b""), (b"", None), (b"", b"one")):
        found, read = await store.swap_and_read(key, before, Cell(b"one", LATER), others)
        assert (None if found is None else found.value) == expected
        assert list(read) == values
    found, read = await store.swap_and_read(key, b"one", Cell(b"two", LATER), [])
    assert (found, list(read)) == (None, [])


async def test_a_swap_is_read_by_its_own_command(store: Store, key: str) -> None:
    """What is read is not older than the swap."""
    _, (value,) = await store.swap_and_read(key, b"", Cell(b"one", LATER), [key])
    assert value == b"one"
    moved = await store.move(key, lambda *_: None, others=[key])
    assert (moved.value, list(moved.others)) == (b"one", [b"one"])


async def test_a_value_is_stored_where_there_is_none(store: Store, key: str) -> None:
    assert await store.swap(key, None, Cell(b"one", LATER)) == Stored(b"", 0.0)
    assert await store.swap(key, b"zero", Cell(b"one", LATER)) == Stored(b"", 0.0)
    assert await found(store, key) == b""
    assert await store.swap(key, b"", Cell(b"one", LATER)) is None
    assert await found(store, key) == b"one"


async def test_a_value_is_replaced_by_whoever_knows_it(store: Store, key: str) -> None:
    await store.swap(key, b"", Cell(b"one", LATER))
    for wrong in (b"", b"on", b"ones", b"ONE"):
        seen = await store.swap(key, wrong, Cell(b"two", LATER))
        assert seen is not None
        assert seen.value == b"one"
    assert await store.swap(key, b"one", Cell(b"two", LATER)) is None
    assert await found(store, key) == b"two"


async def test_a_value_is_deleted_by_whoever_knows_it(store: Store, key: str) -> None:
    await store.swap(key, b"", Cell(b"one", LATER))
    assert (await store.swap(key, b"two", Cell(b"", LATER)) or Stored(b"", 0)).value == b"one"
    assert await store.swap(key, b"one", Cell(b"", LATER)) is None
    assert await found(store, key) == b""
    assert await store.swap(key, b"one", Cell(b"two", LATER)) == Stored(b"", 0.0)
    assert await store.swap(key, b"", Cell(b"", 0)) is None
    assert await store.swap(key, b"", Cell(b"two", LATER)) is None
    assert await found(store, key) == b"two"


async def test_an_expired_value_is_none(store: Store, key: str) -> None:
    for before in (b"", b"one"):
        if before:
            await store.swap(key, b"", Cell(before, LATER))
        assert await store.swap(key, before, Cell(b"two", LONG_AGO)) is None
        assert await found(store, key) == b""
        assert await store.swap(key, b"two", Cell(b"three", LATER)) == Stored(b"", 0.0)
    assert await store.swap(key, b"", Cell(b"three", LATER)) is None
    assert await found(store, key) == b"three"


async def test_a_swap_may_be_repeated_after_its_reply_was_lost(store: Store, key: str) -> None:
    for before, after in ((b"", b"one"), (b"one", b"two"), (b"two", b"")):
        assert await store.swap(key, before, Cell(after, LATER)) is None
        again = await store.swap(key, before, Cell(after, LATER))
        assert again is not None
        assert again.value == after
        assert await found(store, key) == after


async def age(store: Store, key: str) -> float:
    seen = await store.swap(key, None, Cell(b"", 0))
    assert seen is not None
    return seen.age


async def test_a_value_grows_older_until_it_is_replaced(store: Store, key: str) -> None:
    for before, after in ((b"", b"one"), (b"one", b"two")):
        began = time.monotonic()
        await store.swap(key, before, Cell(after, LATER))
        while (seen := await age(store, key)) < 0.1:
            assert 0 <= seen <= time.monotonic() - began + 0.01


async def test_large_values_are_kept_as_they_are(store: Store, key: str) -> None:
    one, two = secrets.token_bytes(100_000), bytes(range(256)) * 400
    assert await store.swap(key, b"", Cell(one, LATER)) is None
    assert await found(store, key) == one
    assert await store.swap(key, one, Cell(two, LATER)) is None
    assert await found(store, key) == two


async def test_every_printable_key_is_a_key_of_its_own(store: Store) -> None:
    mark = secrets.token_hex(8)
    signs = string.punctuation + " "
    keys = [f"{mark}{sign}" for sign in signs]
    keys += [f"{mark}a", f"{mark}A", mark, f"{mark}{{a}}", (mark + 3 * signs)[:200].ljust(200, "x")]
    for each in keys:
        assert await store.swap(each, b"", Cell(each.encode(), LATER)) is None
    assert list(await store.read(keys)) == [each.encode() for each in keys]


def appending(item: bytes) -> Change:
    return lambda value, age: Cell(value + item, LATER)


async def test_concurrent_movers_lose_nothing(given: Any, store: Store, key: str) -> None:
    """Two stores on one server or file, as two processes have them."""
    items = [bytes([ord("a") + number]) for number in range(MOVERS)]
    async with opened(store_of(given, Clock()) if isinstance(given, str) else store) as other:
        moves = [
            each.move(key, appending(item), known=b"" if item < b"f" else None)
            for each, item in zip([store, other] * MOVERS, items, strict=False)
        ]
        results = await asyncio.gather(*moves)
    value = await found(store, key)
    assert sorted(value) == sorted(b"".join(items))
    assert sorted((each.value for each in results), key=len) == [
        value[: length + 1] for length in range(MOVERS)
    ]
