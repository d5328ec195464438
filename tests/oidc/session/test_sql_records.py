"""Refresh records and revocations that processes change at the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from fastapi_oidc.session.records import Advance, Phase, RefreshRecord, Take
from fastapi_oidc.session.sql import SQLSessionStore
from fastapi_oidc.session.sql.tables import refreshes
from tests.oidc.session.conftest import empty_sql_store, opened_sql_store
from tests.oidc.session.examples import User, a_record, a_session

NAME, LIFETIME = "session-1", 1000
SEEN, ENDED = Advance(last_seen_at=50), Advance(phase=Phase.ENDED, data=b"signed_out")
Store = SQLSessionStore[User]


def take(owner: str) -> Take:
    return Take(generation=0, owner=owner, hold=60, answered_hold=20)


def done(owner: str) -> Advance:
    return Advance(phase=Phase.IDLE, owner=owner, generation=0, to_generation=1, session=b"next")


@pytest.fixture
async def processes(sql_store: Store, sql_url: str) -> AsyncIterator[list[Store]]:
    """Eight processes with one database."""
    async with AsyncExitStack() as stack:
        opened = [opened_sql_store(sql_url) for _ in range(7)]
        yield [sql_store, *[await stack.enter_async_context(each) for each in opened]]


async def test_one_of_many_processes_takes_the_record_and_moves_it_on(
    processes: list[Store],
) -> None:
    owners = [f"owner-{number}" for number in range(8)]
    takes = (
        store.records.take(NAME, take(owner), lifetime=LIFETIME)
        for store, owner in zip(processes, owners, strict=True)
    )
    (winner,) = {record.owner for record in await asyncio.gather(*takes)}
    moves = (
        store.records.advance(NAME, done(owner), lifetime=LIFETIME)
        for store, owner in zip(processes, owners, strict=True)
    )
    assert await asyncio.gather(*moves) == [owner == winner for owner in owners]


async def test_revocations_at_the_same_time_are_all_remembered(processes: list[Store]) -> None:
    """A login that found one of them alone would be ended by any other."""
    records = [
        a_record(sid=None, sub="alice", made_by="application").model_copy(update={"stamp": stamp})
        for stamp in "abcdefgh"
    ]
    await asyncio.gather(
        *(
            store.revocations.revoke(record)
            for store, record in zip(processes, records, strict=True)
        )
    )
    (stamps,) = {await store.revocations.stamps(a_session()) for store in processes}
    after = a_session().model_copy(update={"prior_revocations": stamps})
    assert await processes[0].revocations.ended_by(after) is None
    for stamp in "abcdefgh":
        before = a_session().model_copy(update={"prior_revocations": (stamp,)})
        assert await processes[0].revocations.ended_by(before) == "revoked"


async def test_a_process_waits_for_another_ones_change_and_sees_it(postgres_url: str) -> None:
    """The other one has read the record, and has not written it yet."""
    async with empty_sql_store(postgres_url) as here, opened_sql_store(postgres_url) as there:
        locked, go_on = asyncio.Event(), asyncio.Event()

        async def slow(connection: AsyncConnection) -> None:
            await connection.execute(here._records._lock, {"id": NAME})
            locked.set()
            await go_on.wait()
            await connection.execute(
                update(refreshes).values(phase="ended", data=b"signed_out", expires_at=4e9)
            )

        first = asyncio.create_task(here._database.transaction(slow))
        await locked.wait()
        taking = there.records.take(NAME, take("b"), lifetime=LIFETIME)
        second = asyncio.create_task(taking)
        waiting = text("SELECT 1 FROM pg_locks WHERE NOT granted")
        async with asyncio.timeout(20):
            while not await here._database.run(waiting, {}):  # noqa: ASYNC110
                await asyncio.sleep(0)
        go_on.set()
        await first
        assert (await second).phase is Phase.ENDED


@pytest.mark.parametrize("isolation", ["AUTOCOMMIT", "SERIALIZABLE", None])
async def test_a_change_that_is_interrupted_leaves_the_record_as_it_was(
    sql_store: Store, sql_url: str, isolation: str | None
) -> None:
    """Whatever the application's own engine is used for otherwise."""
    options = {"isolation_level": isolation} if isolation else {}
    engine = create_async_engine(sql_url, **options)
    store = SQLSessionStore(engine, User)

    async def interrupted(connection: AsyncConnection) -> None:
        await connection.execute(store._records._lock, {"id": NAME})
        await connection.execute(update(refreshes).values(owner="me", expires_at=4e9))
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await store._database.transaction(interrupted)
    assert await sql_store.records.look(NAME) == RefreshRecord()
    assert (await store.records.take(NAME, take("a"), lifetime=LIFETIME)).owner == "a"
    assert (await sql_store.records.look(NAME)).owner == "a"
    await engine.dispose()


@pytest.mark.parametrize("step", [take("a"), SEEN, ENDED])
async def test_a_record_lives_as_long_as_the_longest_lifetime_of_its_steps(
    sql_store: Store, step: Take | Advance
) -> None:
    began = time.time()
    for lifetime in (LIFETIME, 10):
        if isinstance(step, Take):
            await sql_store.records.take(NAME, step, lifetime=lifetime)
        else:
            await sql_store.records.advance(NAME, step, lifetime=lifetime)
    (row,) = await sql_store._database.run(select(refreshes), {})
    assert began + LIFETIME - 1 <= row.expires_at <= time.time() + LIFETIME + 1
    await sql_store._database.run(update(refreshes).values(expires_at=time.time() - 1), {})
    assert await sql_store.records.look(NAME) == RefreshRecord()
    taken = await sql_store.records.take(NAME, take("b"), lifetime=LIFETIME)
    assert (taken.owner, taken.last_seen_at) == ("b", 0)


async def test_a_change_that_is_refused_leaves_nothing_that_lasts(sql_store: Store) -> None:
    assert not await sql_store.records.advance(NAME, done("a"), lifetime=LIFETIME)
    assert await sql_store.records.look(NAME) == RefreshRecord()
    assert await sql_store.purge() == 1
