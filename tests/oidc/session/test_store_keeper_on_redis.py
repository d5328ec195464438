"""A session that lives in a store on Redis, with its endings there or beside it."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from fastapi_oidc.session.backend import Found, Keeper
from fastapi_oidc.session.redis import RedisRevocationStore, RedisSessionStore
from tests.oidc.session.examples import User, a_record, a_session
from tests.oidc.session.keepers import (
    UseContract,
    a_cookie_keeper,
    a_store_keeper,
    cookies_of,
)
from tests.oidc.session.plain_stores import PlainSessionStore


class TestStoreKeeperOnRedis(UseContract):
    @pytest.fixture(params=["its own endings", "a store beside it"])
    def keeper(self, request: pytest.FixtureRequest, redis: Redis, prefix: str) -> Keeper[User]:
        store = RedisSessionStore(redis, User, prefix=prefix)
        if request.param == "its own endings":
            return a_store_keeper(store)
        return a_store_keeper(store, RedisRevocationStore(redis, prefix=prefix))

    async def test_a_request_takes_one_command(self, keeper: Keeper[User], redis: Redis) -> None:
        kept = keeper.placed(a_session())
        await keeper.save(kept)
        cookies = cookies_of(keeper, kept)
        before = (await redis.info("stats"))["total_commands_processed"]
        assert await keeper.read(cookies) == Found(kept)
        after = (await redis.info("stats"))["total_commands_processed"]
        assert after - before == 2  # one of them asks for the statistics


async def test_closing_a_keeper_closes_what_its_stores_opened(redis_url: str, prefix: str) -> None:
    store = RedisSessionStore.from_url(redis_url, User, prefix=prefix)
    revocations = RedisRevocationStore.from_url(redis_url, prefix=prefix)
    in_store, in_cookie = a_store_keeper(store, revocations), a_cookie_keeper(revocations)
    kept = in_store.placed(a_session())
    await in_store.save(kept)
    await in_cookie.revoke(a_record())
    # Connections that stay open are warnings, and warnings are errors.
    await in_store.aclose()
    assert await in_cookie.reread(kept) == Found(kept, "ended_by_provider")
    await in_cookie.aclose()
    await a_store_keeper(PlainSessionStore()).aclose()
