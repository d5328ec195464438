"""Rows of sessions in a database: sealed, listed, ended by its clock, and removed in the end."""

from __future__ import annotations

import secrets
import time
from typing import Any

import pytest
from sqlalchemy import Table, event, func, select, update
from sqlalchemy.schema import DropTable

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.records import Advance, Phase, SealedRecords, Take
from fastapi_oidc.session.revocations import digests_of
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.session.sql import SQLSessionStore, metadata, session_store
from fastapi_oidc.session.sql.session_store import PURGE_PAUSE
from fastapi_oidc.session.sql.statements import PURGED_AT_ONCE
from fastapi_oidc.session.sql.tables import refreshes, revocations, sessions
from tests.oidc.protocol.examples import refused
from tests.oidc.session.conftest import opened_sql_store
from tests.oidc.session.examples import NOW, OLD_SECRET, SECRET, User, a_record, a_session, bound

ID, OTHER_ID = "a" * 43, "b" * 43
ALICE = ("https://op.example.com", "app", "alice")
SOON = 1.0
"""A moment long ago by every clock."""


async def changed(store: SQLSessionStore[User], table: Table, **values: Any) -> None:
    """Writes the values into every row."""
    await store._database.run(update(table).values(**values), {})


async def rows_of(store: SQLSessionStore[User], table: Table) -> list[Any]:
    return list(await store._database.run(select(table), {}))


async def filled(store: SQLSessionStore[User]) -> None:
    """Adds a session, a revocation and a refresh record of alice."""
    await store.set(ID, a_session())
    await store.revocations.revoke(a_record(sid=None, sub="alice"))
    records = SealedRecords(store.records, KeyRing([SECRET]).sealer("record"))
    take = Take(generation=0, owner="me", hold=70, answered_hold=20)
    await records.take("session-1", take, lifetime=600)
    change = Advance(
        phase=Phase.ANSWERED, owner="me", generation=0, to_generation=0, data=b"refresh-token"
    )
    await records.advance("session-1", change, lifetime=600)


async def test_a_dump_of_the_database_names_no_user_and_has_no_token(
    sql_store: SQLSessionStore[User],
) -> None:
    await filled(sql_store)
    dump = repr([await rows_of(sql_store, table) for table in metadata.sorted_tables])
    for secret in ("alice", "Alice", "id.to.ken", "access", "again", "refresh-token"):
        assert secret not in dump
    assert "session-1" in dump, "a session id is no secret, and finds the row"


async def test_a_row_opens_in_its_place_and_with_its_secret_alone(
    sql_store: SQLSessionStore[User], sql_url: str
) -> None:
    await sql_store.set(ID, a_session())
    new = secrets.token_urlsafe(32)
    async with opened_sql_store(sql_url, new) as rotated:
        assert await rotated.get(ID) is None
        bound(rotated, SECRET)
        assert await rotated.get(ID) == a_session()
        assert await rotated.replace(ID, a_session().model_copy(update={"generation": 1}))
    async with opened_sql_store(sql_url, OLD_SECRET) as stranger:
        assert await stranger.get(ID) is None
        assert await stranger.sessions_of(*ALICE) == []
        assert await stranger.find_by_session_id("session-1") is None
    assert await sql_store.get(ID) is None, "the newest secret sealed it"
    await sql_store.set(ID, a_session())
    await changed(sql_store, sessions, id=OTHER_ID)
    assert await sql_store.find(OTHER_ID, digests_of(a_session())) == (None, None)


async def test_a_row_of_another_identity_type_is_no_session(
    sql_store: SQLSessionStore[User], sql_url: str
) -> None:
    old = OIDCSession[str].model_construct(**dict(a_session()) | {"identity": "alice"})
    earlier = bound(SQLSessionStore(sql_url, str), identity_type=str)
    await earlier.set(ID, old)
    assert await earlier.get(ID) == old
    assert await sql_store.get(ID) is None
    await earlier.aclose()


async def test_without_a_secret_no_session_is_written_or_read(
    sql_store: SQLSessionStore[User], sql_url: str
) -> None:
    await sql_store.set(ID, a_session())
    unbound = SQLSessionStore(sql_url, User)
    for call in (
        unbound.set(OTHER_ID, a_session()),
        unbound.replace(ID, a_session()),
        unbound.get(ID),
        unbound.find(ID, ()),
        unbound.sessions_of(*ALICE),
        unbound.find_by_session_id("session-1"),
    ):
        with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
            await call
    assert await unbound.purge() == 0, "which a cron job may do"
    await unbound.aclose()


async def test_a_row_is_of_the_session_that_it_was_sealed_for(
    sql_store: SQLSessionStore[User],
) -> None:
    await sql_store.set(ID, a_session(id="session-2"))
    await changed(sql_store, sessions, session_id="session-1")
    assert await sql_store.find_by_session_id("session-1") is None


async def test_an_expired_session_is_no_session_by_the_clock_of_the_database(
    sql_store: SQLSessionStore[User],
) -> None:
    now = int(time.time())
    await sql_store.set(ID, a_session(expires_at=now + 3600))
    assert await sql_store.get(ID) is not None
    await changed(sql_store, sessions, expires_at=now - 1)
    assert await sql_store.get(ID) is None
    assert await sql_store.find(ID, digests_of(a_session())) == (None, None)
    assert await sql_store.find_by_session_id("session-1") is None
    assert await sql_store.sessions_of(*ALICE) == []
    assert not await sql_store.replace(ID, a_session().model_copy(update={"generation": 1}))


async def test_an_expired_revocation_ends_nothing(sql_store: SQLSessionStore[User]) -> None:
    await sql_store.set(ID, a_session())
    await sql_store.revocations.revoke(a_record(expires_at=NOW + 200))
    await sql_store.revocations.revoke(a_record(expires_at=NOW + 100))
    (row,) = await rows_of(sql_store, revocations)
    assert row.expires_at == NOW + 200, "that of the last session that it can end"
    await changed(sql_store, revocations, expires_at=time.time() - 1)
    assert await sql_store.revocations.ended_by(a_session()) is None
    assert await sql_store.find(ID, digests_of(a_session())) == (a_session(), None)


async def test_a_reason_that_nobody_wrote_ends_the_session_as_revoked(
    sql_store: SQLSessionStore[User],
) -> None:
    await sql_store.set(ID, a_session())
    await sql_store.revocations.revoke(a_record(sid=None, sub="alice", made_by="application"))
    await changed(sql_store, revocations, reason="because")
    assert await sql_store.find(ID, digests_of(a_session())) == (a_session(), "revoked")


async def test_expired_rows_are_removed_a_thousand_at_a_time_and_no_others(
    sql_store: SQLSessionStore[User],
) -> None:
    await filled(sql_store)
    for table in metadata.sorted_tables:
        ((*values,),) = await rows_of(sql_store, table)
        row = dict(zip(table.c.keys(), values, strict=True)) | {"expires_at": SOON}
        (key,) = table.primary_key.columns.keys()
        expired = [row | {key: str(number)} for number in range(PURGED_AT_ONCE + 1)]
        await sql_store._database.run(table.insert().values(expired), {})
    engine = sql_store._database._here().autocommit
    statements: list[str] = []
    event.listen(
        engine.sync_engine,
        "after_cursor_execute",
        lambda _connection, _cursor, statement, *_: statements.append(statement),
    )
    assert await sql_store.purge() == 3 * (PURGED_AT_ONCE + 1)
    assert len(statements) == 3 * 3, "of each table a thousand, one and none"
    for table in metadata.sorted_tables:
        assert len(await rows_of(sql_store, table)) == 1
    assert await sql_store.get(ID) == a_session()


async def test_a_login_removes_expired_rows_but_not_each_login(
    sql_store: SQLSessionStore[User], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(session_store, "monotonic", lambda: now)
    counts = []
    for seconds in (0.0, PURGE_PAUSE - 0.1, 0.1):
        now += seconds
        await sql_store.records.advance("over", Advance(last_seen_at=1), lifetime=-1)
        await sql_store.set(ID, a_session())
        counts.append(len(await rows_of(sql_store, refreshes)))
    assert counts == [0, 1, 0]


async def test_a_login_succeeds_where_expired_rows_cannot_be_removed(
    sql_store: SQLSessionStore[User],
) -> None:
    await sql_store._database.run(DropTable(refreshes), {})
    await sql_store.set(ID, a_session())
    assert await sql_store.get(ID) == a_session()
    await sql_store.create_tables()


async def test_every_table_has_an_index_for_what_it_is_searched_by(
    sql_store: SQLSessionStore[User],
) -> None:
    """`expires_at` to remove rows; a session id and a user to find sessions."""
    indexed = {
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for index in table.indexes
        for column in index.columns
    }
    of_sessions = {f"{sessions.name}.{name}" for name in ("session_id", "user_digest")}
    assert indexed == {f"{table}.expires_at" for table in metadata.tables} | of_sessions
    count = select(func.count()).select_from(sessions)
    assert (await sql_store._database.run(count, {}))[0][0] == 0
