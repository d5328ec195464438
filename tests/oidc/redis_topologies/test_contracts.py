"""Stores and refresh records work on every shape of Redis and Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Sentinel

from fastapi_oidc.session.records import Advance, Phase, Take
from fastapi_oidc.session.redis import RedisSessionStore
from fastapi_oidc.session.revocations import digests_of
from tests.oidc.redis_topologies.watched import SERVICE, running_watched
from tests.oidc.session.examples import NOW, User, a_record, a_session, bound

ID = "a" * 43


@pytest.fixture
async def store(url: str, prefix: str) -> AsyncIterator[RedisSessionStore[User]]:
    store = bound(RedisSessionStore.from_url(url, User, prefix=prefix))
    yield store
    await store.aclose()


async def test_a_session_is_kept_used_refreshed_listed_and_deleted(
    store: RedisSessionStore[User],
) -> None:
    await store.set(ID, a_session())
    await store.touch(ID, NOW + 60)
    assert await store.replace(ID, a_session().model_copy(update={"generation": 1}))
    session, ended = await store.find(ID, digests_of(a_session()))
    assert session is not None
    assert (session.generation, session.last_seen_at, ended) == (1, NOW + 60, None)
    listed = await store.sessions_of("https://op.example.com", "app", "alice")
    assert [each.id for each in listed] == ["session-1"]
    assert await store.find_by_session_id("session-1") == (ID, session)
    await store.delete(ID)
    assert await store.find_by_session_id("session-1") is None
    assert await store.sessions_of("https://op.example.com", "app", "alice") == []


async def test_a_revocation_ends_a_session_and_no_later_login(
    store: RedisSessionStore[User],
) -> None:
    await store.set(ID, a_session())
    await store.revocations.revoke(a_record(sid=None, sub="alice", made_by="application"))
    assert await store.find(ID, digests_of(a_session())) == (a_session(), "revoked")
    stamps = await store.revocations.stamps(a_session())
    later = a_session().model_copy(update={"prior_revocations": stamps})
    assert await store.revocations.ended_by(later) is None


async def test_a_refresh_record_is_taken_once_and_moved_on_by_its_owner(
    store: RedisSessionStore[User],
) -> None:
    def take(owner: str) -> Take:
        return Take(generation=0, owner=owner, hold=60, answered_hold=20)

    await store.records.look("session-1")  # the client has found the nodes
    owners = [f"owner-{number}" for number in range(8)]
    takes = [store.records.take("session-1", take(owner), lifetime=600) for owner in owners]
    (winner,) = {record.owner for record in await asyncio.gather(*takes)}
    for owner in owners:
        done = Advance(
            phase=Phase.IDLE, owner=owner, generation=0, to_generation=1, session=b"sealed"
        )
        moved = await store.records.advance("session-1", done, lifetime=600)
        assert moved is (owner == winner)
    record = await store.records.look("session-1")
    assert (record.generation, record.phase, record.session) == (1, Phase.IDLE, b"sealed")


async def test_a_client_of_a_sentinel_is_taken(program: str, tmp_path: Path) -> None:
    with running_watched(program, tmp_path, patience=60_000) as watched:
        sentinel = Sentinel([("127.0.0.1", watched.sentinel.port)])  # type: ignore[no-untyped-call]
        client = sentinel.master_for(SERVICE)
        store = bound(RedisSessionStore(client, User))
        await store.set(ID, a_session())
        assert await store.get(ID) == a_session()
        await client.aclose()
        await asyncio.gather(*(one.aclose() for one in sentinel.sentinels))
