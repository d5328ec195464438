"""The contract of `RevocationStore`, for every implementation."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.memory import MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.session.model import EndReason, OIDCSession
from fastapi_oidc.session.redis import RedisRevocationStore, RedisSessionStore
from fastapi_oidc.session.revocations import (
    RevocationRecord,
    RevocationStore,
    digests_of,
    end_record,
)
from tests.oidc.protocol.examples import refused
from tests.oidc.session.conftest import MovableClock, empty_sql_store, url_of
from tests.oidc.session.dictionary_stores import ListOfRevocations
from tests.oidc.session.examples import NOW, User, a_record, a_session, bound
from tests.oidc.session.revocation_cases import ALICE, APPLICATION_SUB, CASES, SID_1

HOUR = 3600


KINDS = ["list", "memory", "memory of sessions", "redis", "redis of sessions"]


@pytest.fixture(params=[*KINDS, "postgresql", "sqlite"])
async def store(
    request: pytest.FixtureRequest, moving: MovableClock, redis: Redis, prefix: str
) -> AsyncIterator[RevocationStore]:
    match request.param:
        case "list":
            yield ListOfRevocations()
        case "memory":
            yield MemoryRevocationStore(clock=moving.clock)
        case "memory of sessions":
            yield MemorySessionStore(clock=moving.clock).revocations
        case "redis":
            yield RedisRevocationStore(redis, prefix=prefix)
        case "redis of sessions":
            yield RedisSessionStore(redis, User, prefix=prefix).revocations
        case database:
            async with empty_sql_store(url_of(request, database)) as on_sql:
                yield on_sql.revocations


@pytest.mark.parametrize(
    ("record", "session", "reason"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
async def test_a_record_ends_what_it_names_with_its_reason(
    store: RevocationStore,
    record: RevocationRecord,
    session: OIDCSession[User],
    reason: EndReason | None,
) -> None:
    assert await store.ended_by(session) is None
    await store.revoke(record)
    assert await store.ended_by(session) == reason
    assert record.ends(session) is (reason is not None)


async def test_the_same_record_twice_is_harmless(store: RevocationStore) -> None:
    for _ in range(2):
        await store.revoke(SID_1)
    assert await store.ended_by(a_session()) == "ended_by_provider"


async def test_an_older_logout_token_that_comes_late_takes_nothing_back(
    store: RevocationStore,
) -> None:
    await store.revoke(a_record(issued_at=NOW + 10, expires_at=NOW + 20_000))
    await store.revoke(a_record(issued_at=NOW - 10, expires_at=NOW + 10_000))
    assert await store.ended_by(a_session(authenticated_at=NOW + 10)) is not None


@pytest.mark.parametrize("clock_error", [-HOUR, -20, 0, 20, HOUR])
async def test_a_login_is_ordered_by_the_store_and_by_no_clock(
    store: RevocationStore, clock_error: int
) -> None:
    """The clocks of the workers that sign in and that revoke differ by `clock_error` seconds."""
    before = a_session(created_at=NOW, authenticated_at=NOW)
    assert await store.stamps(before) == ()
    first = a_record(sid=None, sub="alice", made_by="application", issued_at=NOW + clock_error)
    await store.revoke(first)
    after = before.model_copy(update={"prior_revocations": await store.stamps(before)})
    assert await store.ended_by(before) == "revoked"
    assert await store.ended_by(after) is None
    await store.revoke(first.model_copy(update={"stamp": "another"}))
    assert await store.ended_by(after) == "revoked"


async def test_a_record_that_is_written_again_takes_no_later_one_back(
    store: RevocationStore,
) -> None:
    """Its first reply was lost; a session began between the two records."""
    first = a_record(sid=None, sub="alice", made_by="application")
    later = first.model_copy(update={"stamp": "later"})
    await store.revoke(first)
    stamps = await store.stamps(a_session())
    session = a_session().model_copy(update={"prior_revocations": stamps})
    await store.revoke(later)
    await store.revoke(first)
    assert await store.ended_by(session) == "revoked"
    newest = a_session().model_copy(update={"prior_revocations": await store.stamps(session)})
    assert await store.ended_by(newest) is None


async def test_records_of_both_makers_do_not_meet(store: RevocationStore) -> None:
    await store.revoke(ALICE)
    await store.revoke(APPLICATION_SUB)
    assert await store.stamps(a_session()) == (APPLICATION_SUB.stamp,)
    later = a_session().model_copy(update={"prior_revocations": (APPLICATION_SUB.stamp,)})
    assert await store.ended_by(later) == "ended_by_provider"
    assert await store.ended_by(a_session(authenticated_at=NOW + 1)) == "revoked"
    assert await store.ended_by(later.model_copy(update={"authenticated_at": NOW + 1})) is None


async def test_a_key_expires_with_the_last_session_that_it_can_end(
    redis: Redis, prefix: str
) -> None:
    store = RedisRevocationStore(redis, prefix=prefix)
    await store.revoke(a_record(expires_at=NOW + 200))
    await store.revoke(a_record(expires_at=NOW + 100))
    (key,) = [key async for key in redis.scan_iter(f"{prefix}*")]
    assert await redis.expiretime(key) == NOW + 200


async def test_a_record_does_not_lapse_for_a_process_whose_clock_is_behind(
    redis: Redis, prefix: str
) -> None:
    """By its own clock the session lives for a minute, by that of Redis it is over."""
    store, now = RedisRevocationStore(redis, prefix=prefix), int(time.time())
    session = a_session(authenticated_at=now - 8 * HOUR, expires_at=now - 60)
    await store.revoke(end_record(session, "signed_out", now - 7 * HOUR))
    assert await store.ended_by(session) == "signed_out"


@pytest.mark.parametrize("written", ["soon", "1", "1 2 because", "x  revoked"])
async def test_a_value_that_nobody_wrote_is_an_outage(
    redis: Redis, prefix: str, written: str
) -> None:
    store = bound(RedisSessionStore(redis, User, prefix=prefix))
    await store.revocations.revoke(SID_1)
    (key,) = [key async for key in redis.scan_iter(f"{prefix}*")]
    await redis.set(key, written)
    await store.set("id", a_session())
    for question in (
        store.revocations.ended_by(a_session()),
        store.revocations.stamps(a_session()),
        store.find("id", digests_of(a_session())),
    ):
        with refused(Code.SESSION_REVOCATION_UNAVAILABLE, SessionError):
            await question


async def test_a_key_does_not_name_the_user(redis: Redis, prefix: str) -> None:
    await RedisRevocationStore(redis, prefix=prefix).revoke(ALICE)
    (key,) = [key async for key in redis.scan_iter(f"{prefix}*")]
    assert b"alice" not in key


async def test_a_store_without_records_of_says_so() -> None:
    class Half(RevocationStore):
        async def revoke(self, record: RevocationRecord, /) -> None: ...

    with refused(Code.CONFIGURATION_STORE_MISSING, ConfigurationError):
        await Half().ended_by(a_session())
