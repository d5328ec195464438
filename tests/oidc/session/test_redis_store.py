"""Values on Redis: a key for each, which ends by the clock of Redis, and one command for each."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.store import Cell
from tests.oidc.session.values import KEY, LATER, ONE, put_one


@pytest.fixture
def store(redis: Redis, prefix: str) -> RedisStore:
    return RedisStore(redis, prefix=prefix)


async def test_a_key_has_the_time_the_value_and_its_end(
    store: RedisStore, redis: Redis, prefix: str
) -> None:
    before = (await redis.time())[0]
    await put_one(store)
    stored = await redis.get(prefix + KEY)
    assert stored is not None
    assert stored[16:] == ONE.value
    assert before <= int(stored[:16]) / 1e6 <= (await redis.time())[0] + 1
    assert await redis.expiretime(prefix + KEY) == LATER
    await store.swap(KEY, ONE.value, Cell(b"", LATER))
    assert not await redis.exists(prefix + KEY)


async def test_ages_are_by_the_clock_of_redis(store: RedisStore, redis: Redis, prefix: str) -> None:
    now = (await redis.time())[0]
    for seconds in (3600, -3600):
        await redis.set(prefix + KEY, b"%010d000000one" % (now - seconds))
        seen = await store.swap(KEY, None, ONE)
        assert seen is not None
        assert seen.value == b"one"
        assert seen.age == pytest.approx(seconds, abs=60)
