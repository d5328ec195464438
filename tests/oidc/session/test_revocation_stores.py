"""The contract of `RevocationStore`, held by every implementation."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pytest
from redis.asyncio import Redis

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.endings import RevocationRecord
from fastapi_oidc.session.memory import MemoryRevocationStore
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.redis import RedisRevocationStore
from fastapi_oidc.session.stores import RevocationStore, settled
from tests.oidc.session.conftest import MovableClock
from tests.oidc.session.examples import NOW, User, a_record, a_session
from tests.oidc.session.plain_stores import PlainRevocationStore

SID_1 = a_record(sid="op-session-1")
BOTH = a_record(sid="op-session-1", sub="alice")
ALICE = a_record(sid=None, sub="alice")

CASES = [
    ("sid: the same", SID_1, a_session(), True),
    ("sid: another", SID_1, a_session(sid="op-session-2"), False),
    ("sid: the session has none", SID_1, a_session(sid=None), False),
    ("sid: any user", SID_1, a_session(sub="bob"), True),
    ("sid and sub: both the same", BOTH, a_session(), True),
    ("sid and sub: another user", BOTH, a_session(sub="bob"), False),
    ("sid and sub: another session of the user", BOTH, a_session(sid="op-session-2"), False),
    ("sub: the same", ALICE, a_session(), True),
    ("sub: every session of the user", ALICE, a_session(sid="op-session-2"), True),
    ("sub: a session without sid", ALICE, a_session(sid=None), True),
    ("sub: another user", ALICE, a_session(sub="bob"), False),
    ("sub is not sid", a_record(sid=None, sub="op-session-1"), a_session(), False),
    ("another issuer", a_record(issuer="https://other.example.com"), a_session(), False),
    ("another client", a_record(client_id="other"), a_session(), False),
    ("authenticated before", SID_1, a_session(authenticated_at=NOW - 1), True),
    ("authenticated in the same second", SID_1, a_session(authenticated_at=NOW), True),
    ("a login after the logout", SID_1, a_session(authenticated_at=NOW + 1), False),
]


class RevocationStoreContract(ABC):
    @pytest.fixture
    @abstractmethod
    def store(self) -> RevocationStore: ...

    @pytest.mark.parametrize(
        ("record", "session", "revoked"),
        [case[1:] for case in CASES],
        ids=[case[0] for case in CASES],
    )
    async def test_a_record_ends_what_it_covers(
        self,
        store: RevocationStore,
        record: RevocationRecord,
        session: OIDCSession[User],
        revoked: bool,
    ) -> None:
        assert not await settled(store.is_revoked(session))
        await settled(store.revoke(record))
        assert await settled(store.is_revoked(session)) is revoked

    async def test_the_same_token_twice_is_harmless(self, store: RevocationStore) -> None:
        await settled(store.revoke(SID_1))
        await settled(store.revoke(SID_1))
        assert await settled(store.is_revoked(a_session()))

    async def test_an_older_token_that_comes_late_takes_nothing_back(
        self, store: RevocationStore
    ) -> None:
        await settled(store.revoke(a_record(issued_at=NOW + 10, expires_at=NOW + 20_000)))
        await settled(store.revoke(a_record(issued_at=NOW - 10, expires_at=NOW + 10_000)))
        assert await settled(store.is_revoked(a_session(authenticated_at=NOW + 10)))

    async def test_a_later_token_reaches_further(self, store: RevocationStore) -> None:
        await settled(store.revoke(a_record(issued_at=NOW - 10)))
        assert not await settled(store.is_revoked(a_session()))
        await settled(store.revoke(a_record(issued_at=NOW)))
        assert await settled(store.is_revoked(a_session()))


class TestPlainRevocationStore(RevocationStoreContract):
    @pytest.fixture
    def store(self) -> RevocationStore:
        return PlainRevocationStore()


class TestMemoryRevocationStore(RevocationStoreContract):
    @pytest.fixture
    def store(self, moving: MovableClock) -> RevocationStore:
        return MemoryRevocationStore(clock=moving.clock)

    async def test_a_record_is_forgotten_at_its_end(self, moving: MovableClock) -> None:
        store = MemoryRevocationStore(clock=moving.clock)
        await store.revoke(a_record(expires_at=NOW + 100))
        await store.revoke(a_record(expires_at=NOW + 50))
        moving.second = NOW + 99
        assert await store.is_revoked(a_session())
        moving.second = NOW + 100
        assert not await store.is_revoked(a_session())

    async def test_when_full_it_refuses_rather_than_forget(self, moving: MovableClock) -> None:
        store = MemoryRevocationStore(clock=moving.clock, max_records=1)
        await store.revoke(SID_1)
        with pytest.raises(SessionError) as caught:
            await store.revoke(ALICE)
        assert caught.value.code is Code.SESSION_REVOCATION_UNAVAILABLE
        assert await store.is_revoked(a_session())


class TestRedisRevocationStore(RevocationStoreContract):
    @pytest.fixture
    def store(self, redis: Redis, prefix: str) -> RevocationStore:
        return RedisRevocationStore(redis, prefix=prefix)

    async def test_a_record_expires_with_the_last_session(self, redis: Redis, prefix: str) -> None:
        store = RedisRevocationStore(redis, prefix=prefix)
        await store.revoke(a_record(expires_at=NOW + 200))
        await store.revoke(a_record(expires_at=NOW + 100))
        (key,) = [key async for key in redis.scan_iter(f"{prefix}*")]
        assert await redis.expiretime(key) == NOW + 200

    async def test_a_key_does_not_name_the_user(self, redis: Redis, prefix: str) -> None:
        await RedisRevocationStore(redis, prefix=prefix).revoke(ALICE)
        (key,) = [key async for key in redis.scan_iter(f"{prefix}*")]
        assert b"alice" not in key
