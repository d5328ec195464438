"""The contract of `RevocationStore`, held by every implementation."""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod

import pytest
from redis.asyncio import Redis

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.abilities import TellsReason
from fastapi_oidc.session.revocations import RevocationRecord, digests_of, end_record
from fastapi_oidc.session.memory import MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.session.model import EndReason, OIDCSession
from fastapi_oidc.session.redis import RedisRevocationStore, RedisSessionStore
from fastapi_oidc.session.stores import RevocationStore, settled
from tests.oidc.protocol.examples import refused
from tests.oidc.session.conftest import MovableClock
from tests.oidc.session.ending_cases import ALICE, APPLICATION_SUB, CASES, REASONED, SID_1
from tests.oidc.session.examples import NOW, User, a_record, a_session
from tests.oidc.session.plain_stores import PlainRevocationStore

HOUR = 3600


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


class ReasonContract(RevocationStoreContract):
    """What a store with `ended_by` knows beyond yes and no."""

    @pytest.mark.parametrize(
        ("record", "session", "reason"),
        [case[1:] for case in REASONED],
        ids=[case[0] for case in REASONED],
    )
    async def test_a_record_gives_its_reason(
        self,
        store: TellsReason,
        record: RevocationRecord,
        session: OIDCSession[User],
        reason: EndReason | None,
    ) -> None:
        assert isinstance(store, TellsReason)
        assert await settled(store.ended_by(session)) is None
        await settled(store.revoke(record))
        assert await settled(store.ended_by(session)) == reason
        assert await settled(store.is_revoked(session)) is (reason is not None)

    async def test_records_of_both_makers_do_not_meet(self, store: TellsReason) -> None:
        session = a_session(created_at=NOW + 1, authenticated_at=NOW)
        await settled(store.revoke(ALICE))
        await settled(store.revoke(APPLICATION_SUB))
        assert await settled(store.ended_by(session)) == "ended_by_provider"
        await settled(store.revoke(a_record(sid=None, sub="alice", issued_at=NOW + 5)))
        assert await settled(store.ended_by(a_session(authenticated_at=NOW + 5))) is not None
        assert await settled(store.ended_by(a_session())) == "revoked"


class TestPlainRevocationStore(RevocationStoreContract):
    @pytest.fixture
    def store(self) -> RevocationStore:
        return PlainRevocationStore()


class TestMemoryRevocationStore(ReasonContract):
    @pytest.fixture(params=[MemoryRevocationStore, MemorySessionStore])
    def store(self, request: pytest.FixtureRequest, moving: MovableClock) -> TellsReason:
        made: TellsReason = request.param(clock=moving.clock)
        return made


class TestRedisRevocationStore(ReasonContract):
    @pytest.fixture(params=["endings", "sessions and endings"])
    def store(self, request: pytest.FixtureRequest, redis: Redis, prefix: str) -> TellsReason:
        if request.param == "endings":
            return RedisRevocationStore(redis, prefix=prefix)
        return RedisSessionStore(redis, User, prefix=prefix)

    async def test_a_record_expires_with_the_last_session(self, redis: Redis, prefix: str) -> None:
        store = RedisRevocationStore(redis, prefix=prefix)
        await store.revoke(a_record(expires_at=NOW + 200))
        await store.revoke(a_record(expires_at=NOW + 100))
        (key,) = [key async for key in redis.scan_iter(f"{prefix}*")]
        assert await redis.expiretime(key) == NOW + 200

    async def test_an_ending_does_not_lapse_for_a_process_whose_clock_is_behind_that_of_redis(
        self, store: TellsReason
    ) -> None:
        """By its own clock the session lives for a minute, by that of Redis it is over."""
        now = int(time.time())
        session = a_session(authenticated_at=now - 8 * HOUR, expires_at=now - 60)
        await settled(store.revoke(end_record(session, "signed_out", now - 7 * HOUR)))
        assert await settled(store.ended_by(session)) == "signed_out"

    async def test_what_0_1_0_wrote_is_read(self, redis: Redis, prefix: str) -> None:
        """One integer, under the SHA-256 of the JSON of what a record names."""
        named = json.dumps(("https://op.example.com", "app", "sid", "op-session-1", ""))
        key = f"{prefix}revoked:{hashlib.sha256(named.encode()).hexdigest()}"
        await redis.set(key, NOW)
        store = RedisRevocationStore(redis, prefix=prefix)
        assert await store.ended_by(a_session()) == "ended_by_provider"
        assert await store.ended_by(a_session(authenticated_at=NOW + 1)) is None

    async def test_0_1_0_reads_what_a_provider_ended(self, redis: Redis, prefix: str) -> None:
        await RedisRevocationStore(redis, prefix=prefix).revoke(SID_1)
        (key,) = [key async for key in redis.scan_iter(f"{prefix}*")]
        assert await redis.get(key) == str(NOW).encode()

    @pytest.mark.parametrize("written", ["soon", "1  2 revoked", "1 2 because", "1 2"])
    async def test_what_nobody_wrote_is_an_outage(
        self, redis: Redis, prefix: str, written: str
    ) -> None:
        store = RedisSessionStore(redis, User, prefix=prefix)
        await store.revoke(SID_1)
        (key,) = [key async for key in redis.scan_iter(f"{prefix}*")]
        await redis.set(key, written)
        await store.set("id", a_session())
        for question in (
            store.ended_by(a_session()),
            store.get_with_endings("id", digests_of(a_session())),
        ):
            with refused(Code.SESSION_REVOCATION_UNAVAILABLE, SessionError):
                await question

    async def test_a_key_does_not_name_the_user(self, redis: Redis, prefix: str) -> None:
        await RedisRevocationStore(redis, prefix=prefix).revoke(ALICE)
        (key,) = [key async for key in redis.scan_iter(f"{prefix}*")]
        assert b"alice" not in key
