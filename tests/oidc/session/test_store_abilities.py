"""What the stores of this library can do beyond `SessionStore`, alike in memory and on Redis."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pytest
from redis.asyncio import Redis

from fastapi_oidc.session.abilities import (
    Bindable,
    KeepsEndings,
    ListsSessions,
    RemembersUse,
    Replaces,
    bypasses,
)
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.endings import digests_of
from fastapi_oidc.session.memory import MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.redis import RedisRevocationStore, RedisSessionStore
from fastapi_oidc.session.sealing import KeyRing
from tests.oidc.session.conftest import MovableClock
from tests.oidc.session.examples import LIFETIME, NOW, SECRET, User, a_record, a_session
from tests.oidc.session.plain_stores import PlainSessionStore

ID, OTHER_ID, THIRD_ID = "a" * 43, "b" * 43, "c" * 43
ALICE = ("https://op.example.com", "app", "alice")

AbleStore = MemorySessionStore[User] | RedisSessionStore[User]


def refreshed() -> OIDCSession[User]:
    return a_session().model_copy(update={"generation": 1})


class AbilityContract(ABC):
    @pytest.fixture
    @abstractmethod
    def store(self) -> AbleStore: ...

    def test_it_is_found_able(self, store: AbleStore) -> None:
        for ability in (Replaces, RemembersUse, ListsSessions, KeepsEndings, Bindable):
            assert isinstance(store, ability)

    async def test_a_row_is_replaced_only_where_there_is_one(self, store: AbleStore) -> None:
        assert not await store.replace(ID, refreshed())
        assert await store.get(ID) is None
        await store.set(ID, a_session())
        assert await store.replace(ID, refreshed())
        assert await store.get(ID) == refreshed()
        await store.delete(ID)
        assert not await store.replace(ID, refreshed())
        assert await store.get(ID) is None

    async def test_a_use_is_remembered_beside_the_row(self, store: AbleStore) -> None:
        await store.set(ID, a_session())
        await store.touch(ID, NOW + 100)
        await store.touch(ID, NOW + 50)
        used = await store.get(ID)
        assert used == a_session().model_copy(update={"last_seen_at": NOW + 100})

    async def test_a_use_while_the_successor_was_made_is_remembered(self, store: AbleStore) -> None:
        await store.set(ID, a_session())
        await store.touch(ID, NOW + 100)
        for before, after in ((None, 100), (50, 100), (150, 150)):
            last_seen_at = None if before is None else NOW + before
            made = refreshed().model_copy(update={"last_seen_at": last_seen_at})
            assert await store.replace(ID, made)
            assert await store.get(ID) == made.model_copy(update={"last_seen_at": NOW + after})

    async def test_a_use_of_nothing_makes_no_row(self, store: AbleStore) -> None:
        await store.touch(ID, NOW)
        assert await store.get(ID) is None

    async def test_the_sessions_of_a_user_are_listed(self, store: AbleStore) -> None:
        first, second = a_session(id="one"), a_session(id="two", expires_at=NOW + 2 * LIFETIME)
        await store.set(ID, first)
        await store.set(OTHER_ID, second.model_copy(update={"created_at": NOW + 1}))
        await store.set(THIRD_ID, a_session(id="three", sub="bob"))
        last = a_session(id="four", created_at=NOW + 2, expires_at=NOW + 3 * LIFETIME)
        await store.set("d" * 43, last)
        listed = await store.sessions_of(*ALICE)
        assert [session.id for session in listed] == ["one", "two", "four"]
        await store.delete(ID)
        assert [session.id for session in await store.sessions_of(*ALICE)] == ["two", "four"]
        assert await store.sessions_of(ALICE[0], "another", "alice") == []

    async def test_a_session_and_its_end_are_found_together(self, store: AbleStore) -> None:
        digests = digests_of(a_session())
        assert await store.get_with_endings(ID, digests) == (None, None)
        await store.set(ID, a_session())
        assert await store.get_with_endings(ID, digests) == (a_session(), None)
        await store.revoke(a_record())
        assert await store.get_with_endings(ID, digests) == (a_session(), "ended_by_provider")

    @pytest.mark.parametrize("digests", [(), digests_of(a_session(sid="earlier"))])
    async def test_a_cookie_that_remembers_less_hides_no_end(
        self, store: AbleStore, digests: tuple[str, ...]
    ) -> None:
        """One of 0.1.0, and one from before a refresh brought another sid."""
        await store.set(ID, a_session())
        await store.revoke(a_record())
        assert await store.get_with_endings(ID, digests) == (a_session(), "ended_by_provider")


class TestMemorySessionStore(AbilityContract):
    @pytest.fixture(params=["copies", "encoded"])
    def store(self, request: pytest.FixtureRequest, moving: MovableClock) -> AbleStore:
        identity_type = User if request.param == "encoded" else None
        return MemorySessionStore(clock=moving.clock, identity_type=identity_type)

    def test_endings_elsewhere_are_not_its_own(self) -> None:
        store = MemorySessionStore[User]()
        assert store.keeps_endings_of(store)
        assert not store.keeps_endings_of(MemoryRevocationStore())


class TestRedisSessionStore(AbilityContract):
    @pytest.fixture(params=["clear", "sealed"])
    def store(self, request: pytest.FixtureRequest, redis: Redis, prefix: str) -> AbleStore:
        store = RedisSessionStore(redis, User, prefix=prefix)
        if request.param == "sealed":
            store.bind(SessionCodec(User), KeyRing([SECRET]).sealer("row"))
        return store

    async def test_session_and_endings_take_one_command(
        self, store: AbleStore, redis: Redis
    ) -> None:
        await store.set(ID, a_session())
        before = (await redis.info("stats"))["total_commands_processed"]
        assert await store.get_with_endings(ID, digests_of(a_session())) == (a_session(), None)
        after = (await redis.info("stats"))["total_commands_processed"]
        assert after - before == 2  # one of them asks for the statistics

    async def test_a_use_does_not_prolong_a_row(
        self, store: AbleStore, redis: Redis, prefix: str
    ) -> None:
        await store.set(ID, a_session())
        await store.touch(ID, NOW + 10)
        assert await redis.expiretime(f"{prefix}session:{ID}") == a_session().expires_at

    async def test_a_refresh_keeps_the_end_of_its_row(
        self, store: AbleStore, redis: Redis, prefix: str
    ) -> None:
        await store.set(ID, a_session())
        await store.replace(ID, refreshed())
        assert await redis.expiretime(f"{prefix}session:{ID}") == a_session().expires_at

    async def test_a_list_ends_with_its_last_session(
        self, store: AbleStore, redis: Redis, prefix: str
    ) -> None:
        await store.set(ID, a_session(expires_at=NOW + 200))
        await store.set(OTHER_ID, a_session(expires_at=NOW + 100))
        (key,) = [key async for key in redis.scan_iter(f"{prefix}sessions_of:*")]
        assert await redis.expiretime(key) == NOW + 200
        assert b"alice" not in key

    async def test_a_list_forgets_rows_that_are_gone(
        self, store: AbleStore, redis: Redis, prefix: str
    ) -> None:
        await store.set(ID, a_session())
        await store.set(OTHER_ID, a_session())
        await store.delete(ID)
        await store.sessions_of(*ALICE)
        (key,) = [key async for key in redis.scan_iter(f"{prefix}sessions_of:*")]
        assert await redis.zrange(key, 0, -1) == [OTHER_ID.encode()]

    async def test_it_has_the_endings_of_a_revocation_store_with_the_same_keys(
        self, redis: Redis, redis_url: str, prefix: str
    ) -> None:
        store = RedisSessionStore(redis, User, prefix=prefix)
        elsewhere = RedisRevocationStore.from_url(f"{redis_url}?db=1", prefix=prefix)
        again = RedisRevocationStore.from_url(redis_url, prefix=prefix)
        assert store.keeps_endings_of(store)
        assert store.keeps_endings_of(RedisRevocationStore(redis, prefix=prefix))
        assert store.keeps_endings_of(again)
        assert not store.keeps_endings_of(elsewhere)
        assert not store.keeps_endings_of(RedisRevocationStore(redis, prefix="other:"))
        assert not store.keeps_endings_of(MemoryRevocationStore())


def test_a_plain_store_is_found_unable() -> None:
    for ability in (Replaces, RemembersUse, ListsSessions, KeepsEndings, Bindable):
        assert not isinstance(PlainSessionStore(), ability)


def test_a_subclass_from_before_an_ability_is_not_gone_round() -> None:
    class Logging(MemorySessionStore[User]):
        async def set(self, id: str, session: OIDCSession[User], /) -> None:
            await super().set(id, session)

    class Knowing(Logging):
        async def replace(self, id: str, session: OIDCSession[User], /) -> bool:
            return await super().replace(id, session)

    assert bypasses(Logging(), "replace", "get", "set")
    assert not bypasses(Logging(), "get_with_endings", "get")
    assert not bypasses(Knowing(), "replace", "set")
    assert not bypasses(MemorySessionStore(), "replace", "set")
