"""The contract of `SessionStore`, held by every implementation."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pytest
from redis.asyncio import Redis

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.memory import MemorySessionStore
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.redis import RedisSessionStore
from fastapi_oidc.session.stores import SessionStore, settled, unavailable_as
from tests.oidc.session.conftest import MovableClock
from tests.oidc.session.examples import User, a_session
from tests.oidc.session.plain_stores import PlainSessionStore

ID = "a" * 43


class SessionStoreContract(ABC):
    @pytest.fixture
    @abstractmethod
    def store(self) -> SessionStore[User]: ...

    async def test_an_unknown_id_is_no_session(self, store: SessionStore[User]) -> None:
        assert await settled(store.get(ID)) is None

    async def test_a_session_comes_back_as_it_was(self, store: SessionStore[User]) -> None:
        await settled(store.set(ID, a_session()))
        assert await settled(store.get(ID)) == a_session()
        assert await settled(store.get(ID.upper())) is None

    async def test_the_last_set_wins(self, store: SessionStore[User]) -> None:
        await settled(store.set(ID, a_session()))
        refreshed = a_session().model_copy(update={"generation": 1})
        await settled(store.set(ID, refreshed))
        assert await settled(store.get(ID)) == refreshed

    async def test_a_deleted_session_is_gone(self, store: SessionStore[User]) -> None:
        await settled(store.set(ID, a_session()))
        await settled(store.delete(ID))
        await settled(store.delete(ID))
        assert await settled(store.get(ID)) is None


class TestPlainSessionStore(SessionStoreContract):
    @pytest.fixture
    def store(self) -> SessionStore[User]:
        return PlainSessionStore()


class TestMemorySessionStore(SessionStoreContract):
    @pytest.fixture
    def store(self, moving: MovableClock) -> SessionStore[User]:
        return MemorySessionStore(clock=moving.clock)

    async def test_a_session_is_over_at_its_end(self, moving: MovableClock) -> None:
        store = MemorySessionStore[User](clock=moving.clock)
        await store.set(ID, a_session())
        moving.second = a_session().expires_at - 1
        assert await store.get(ID) is not None
        moving.second += 1
        assert await store.get(ID) is None

    async def test_what_was_read_can_change_without_changing_the_row(
        self, moving: MovableClock
    ) -> None:
        store = MemorySessionStore[User](clock=moving.clock)
        await store.set(ID, a_session())
        first = await store.get(ID)
        assert first is not None
        first.claims["added"] = "later"
        assert await store.get(ID) == a_session()

    async def test_it_takes_no_more_than_its_limit(self, moving: MovableClock) -> None:
        store = MemorySessionStore[User](clock=moving.clock, max_sessions=1)
        await store.set("one", a_session())
        await store.set("one", a_session())
        with pytest.raises(SessionError) as caught:
            await store.set("two", a_session())
        assert caught.value.code is Code.SESSION_STORE_UNAVAILABLE
        moving.second = a_session().expires_at
        await store.set("two", a_session(expires_at=moving.second + 60))
        assert await store.get("two") is not None


class TestRedisSessionStore(SessionStoreContract):
    @pytest.fixture
    def store(self, redis: Redis, prefix: str) -> SessionStore[User]:
        return RedisSessionStore(redis, User, prefix=prefix)

    async def test_a_row_expires_with_its_session(self, redis: Redis, prefix: str) -> None:
        await RedisSessionStore(redis, User, prefix=prefix).set(ID, a_session())
        assert await redis.expiretime(f"{prefix}session:{ID}") == a_session().expires_at

    async def test_a_row_of_another_identity_type_is_no_session(
        self, redis: Redis, prefix: str
    ) -> None:
        await RedisSessionStore(redis, str, prefix=prefix).set(ID, an_old_session())
        assert await RedisSessionStore(redis, User, prefix=prefix).get(ID) is None

    async def test_a_client_that_decodes_answers_is_refused(self, redis_url: str) -> None:
        client = Redis.from_url(redis_url, decode_responses=True)
        with pytest.raises(ConfigurationError, match="decode_responses") as caught:
            RedisSessionStore(client, User)
        assert caught.value.code is Code.CONFIGURATION_INVALID
        await client.aclose()


def an_old_session() -> OIDCSession[str]:
    return OIDCSession[str].model_construct(**dict(a_session()) | {"identity": "alice"})


class FailingStore(PlainSessionStore):
    def get(self, id: str, /) -> OIDCSession[User] | None:
        raise ConnectionError("connection to 10.0.0.1 with password secret refused")


async def test_whatever_a_store_raises_is_unavailable() -> None:
    with pytest.raises(SessionError) as caught, unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
        await settled(FailingStore().get(ID))
    assert caught.value.status == 503
    assert "secret" not in str(caught.value)


async def test_a_store_may_name_its_own_failure() -> None:
    full = SessionError(Code.SESSION_STORE_UNAVAILABLE, "full")
    with pytest.raises(SessionError) as caught, unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
        raise full
    assert caught.value is full
