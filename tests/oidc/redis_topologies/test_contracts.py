"""A store works on every shape of Redis and Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Sentinel

from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.store import Cell, Stored
from tests.oidc.redis_topologies.watched import SERVICE, running_watched
from tests.oidc.session.values import KEY, LATER, ONE, has_one, put_one


@pytest.fixture
async def store(url: str, prefix: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(url, prefix=prefix)
    yield store
    await store.aclose()


async def test_values_are_stored_read_together_replaced_and_deleted(store: RedisStore) -> None:
    keys = [f"{KEY}{number}" for number in range(8)]
    for key in keys[1:]:
        assert await store.swap(key, b"", Cell(key.encode(), LATER)) is None
    assert list(await store.read(keys)) == [b"", *(key.encode() for key in keys[1:])]
    await put_one(store)
    seen = await store.swap(KEY, b"two", ONE)
    assert seen is not None
    assert seen.value == ONE.value
    assert await store.swap(KEY, ONE.value, Cell(b"", 0)) is None
    assert await store.swap(KEY, ONE.value, ONE) == Stored(b"", 0.0)


async def test_a_client_of_a_sentinel_is_taken(program: str, tmp_path: Path) -> None:
    with running_watched(program, tmp_path, patience=60_000) as watched:
        sentinel = Sentinel([("127.0.0.1", watched.sentinel.port)])  # type: ignore[no-untyped-call]
        client = sentinel.master_for(SERVICE)
        store = RedisStore(client)
        await put_one(store)
        assert await has_one(store)
        await client.aclose()
        await asyncio.gather(*(one.aclose() for one in sentinel.sentinels))
