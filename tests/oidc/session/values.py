"""A value to store, and every operation of a store."""

import time
from collections.abc import Awaitable, Iterator
from typing import Final

from fastapi_oidc.session.store import Cell, Store

KEY: Final = "session:" + "a" * 43
LATER: Final = int(time.time()) + 3600
ONE: Final = Cell(b"one", LATER)


async def has_one(store: Store) -> bool:
    """Whether the value under KEY is ONE, if any."""
    (value,) = await store.read([KEY])
    assert value in (b"", ONE.value)
    return value == ONE.value


async def put_one(store: Store) -> None:
    """Stores ONE under KEY, whatever was there."""
    await store.move(KEY, lambda value, age: ONE)


def calls_of(store: Store) -> Iterator[Awaitable[object]]:
    yield store.read([KEY])
    yield store.swap(KEY, None, ONE)
    yield store.swap(KEY, b"", ONE)
    yield store.swap(KEY, ONE.value, ONE)
    yield put_one(store)
