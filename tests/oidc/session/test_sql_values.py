"""Values in a table: ended by the clock of the database, and removed in the end."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sqlalchemy import event, select, text, update

from fastapi_oidc.session.sql import SQLStore, store
from fastapi_oidc.session.sql.store import PURGE_PAUSE, PURGED_AT_ONCE, table
from fastapi_oidc.session.store import Cell, Stored
from tests.oidc.session.values import KEY, LATER, ONE, has_one, put_one


async def changed(sql_values: SQLStore, **values: Any) -> None:
    """Writes the values into every row."""
    await sql_values._database.run(update(table).values(**values), {})


async def keys_of(sql_values: SQLStore) -> set[str]:
    return {row.key for row in await sql_values._database.run(select(table.c.key), {})}


async def test_a_value_ends_by_the_clock_of_the_database(sql_values: SQLStore) -> None:
    await put_one(sql_values)
    now = time.time()
    await changed(sql_values, expires_at=now + 3600)
    assert await has_one(sql_values)
    await changed(sql_values, expires_at=now - 1)
    assert not await has_one(sql_values)
    assert await sql_values.swap(KEY, ONE.value, ONE) == Stored(b"", 0.0)
    assert await sql_values.swap(KEY, b"", ONE) is None
    assert await has_one(sql_values)


async def test_ages_are_by_the_clock_of_the_database(sql_values: SQLStore) -> None:
    await put_one(sql_values)
    for seconds in (3600, -3600):
        await changed(sql_values, written_at=time.time() - seconds)
        seen = await sql_values.swap(KEY, None, ONE)
        assert seen is not None
        assert seen.age == pytest.approx(seconds, abs=60)


async def test_nothing_of_a_deleted_value_is_left_in_its_row(sql_values: SQLStore) -> None:
    await put_one(sql_values)
    await sql_values.swap(KEY, ONE.value, Cell(b"", LATER))
    columns = select(table.c.value, table.c.expires_at)
    assert [tuple(row) for row in await sql_values._database.run(columns, {})] == [(b"", 0)]


async def test_expired_rows_are_removed_a_thousand_at_a_time_and_no_others(
    sql_values: SQLStore,
) -> None:
    await put_one(sql_values)
    expired = [
        {"key": str(number), "value": b"one", "written_at": 1.0, "expires_at": 1.0}
        for number in range(PURGED_AT_ONCE + 1)
    ]
    await sql_values._database.run(table.insert().values(expired), {})
    engine = sql_values._database.here()
    statements: list[str] = []
    event.listen(
        engine.sync_engine,
        "after_cursor_execute",
        lambda _connection, _cursor, statement, *_: statements.append(statement),
    )
    assert await sql_values.purge() == PURGED_AT_ONCE + 1
    assert len(statements) == 3, "a thousand, one and none"
    assert await keys_of(sql_values) == {KEY}


async def test_a_new_value_removes_expired_rows_but_not_each_new_value(
    sql_values: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(store, "monotonic", lambda: now)
    left = []
    for seconds in (0.0, PURGE_PAUSE - 0.1, 0.1):
        now += seconds
        await sql_values.swap("over", b"", Cell(b"one", 1))
        await sql_values.swap(f"{KEY}{now}", b"", ONE)
        left.append("over" in await keys_of(sql_values))
    assert left == [False, True, False]


async def test_a_value_is_stored_where_expired_rows_cannot_be_removed(
    sql_values: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_PURGE", text("SELECT * FROM no_such_table"))
    assert await sql_values.swap(KEY, b"", ONE) is None
    assert await has_one(sql_values)


def test_rows_are_found_by_their_end() -> None:
    assert [[column.name for column in index.columns] for index in table.indexes] == [
        ["expires_at"]
    ]
