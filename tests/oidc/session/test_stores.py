"""The contract of `Store`, for every implementation; connections to a database."""

import asyncio
import re
import secrets
import sqlite3
import string
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import make_url, select, text, update
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.schema import DropTable

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.own_store import store_of
from fastapi_oidc.session.sql import _PURGE, PURGE_PAUSE, SQLStore, table
from fastapi_oidc.session.store import DEFAULT_TIMEOUT, Cell, Change, MemoryStore, Store, Stored
from tests.oidc.session.conftest import opened_values, url_of
from tests.oidc.session.test_cells import Dictionary
from tests.oidc.session.values import KEY, LATER, ONE, calls_of, has_one, put_one
from tests.postgres_server import running_postgres

SHARED = ["redis", "postgresql", "sqlite"]
LONG_AGO = 1
MOVERS = 12


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Store]:
    yield store
    await store.aclose()


def shared_url(request: pytest.FixtureRequest, kind: str) -> str:
    return str(request.getfixturevalue("redis_url")) if kind == "redis" else url_of(request, kind)


@pytest.fixture(params=["memory", "own", *SHARED])
def given(request: pytest.FixtureRequest) -> Any:
    match request.param:
        case "memory":
            return MemoryStore()
        case "own":
            return Dictionary()
        case kind:
            return shared_url(request, kind)


@pytest.fixture
async def store(given: Any) -> AsyncIterator[Store]:
    async with opened(store_of(given, Clock())) as store:
        yield store


@pytest.fixture
def key() -> str:
    """Keeps the values of one test apart from those of the others."""
    return f"session:{secrets.token_hex(8)}"


SIGNS = string.punctuation + " "
VALUES = [b"one", b"on", b"ONE", b"\0", secrets.token_bytes(100_000), bytes(range(256)) * 400]


async def test_a_store_does_what_a_dictionary_does(store: Store, key: str) -> None:
    """Swaps in any order, with every printable sign in a key: what is found, kept and read."""
    random, stored = Random(key), dict[str, bytes]()
    keys = [key, f"{key}A", f"{key}a", *(f"{key}{sign}" for sign in SIGNS), f"{key}{{a}}"]
    keys.append((key + 3 * SIGNS)[:200].ljust(200, "x"))
    for step in range(250):
        name = random.choice(keys[: 3 + step // 5])
        value = stored.get(name, b"")
        before = random.choice([None, b"", *VALUES, value, value])
        after, ends = random.choice([b"", *VALUES]), random.choice([LATER, LATER, LONG_AGO])
        others = random.sample(keys, random.randrange(3))
        found, read = await store.swap_and_read(name, before, Cell(after, ends), others)
        assert (found is None) == (before == value), "a repeated swap finds another value"
        assert found is None or found == (value, found.age if value else 0.0)
        if found is None:
            stored[name] = after if ends == LATER else b""
        assert list(read) == [stored.get(other, b"") for other in others]
        assert list(await store.read(keys[:9])) == [stored.get(each, b"") for each in keys[:9]]
    assert list(await store.read(keys)) == [stored.get(each, b"") for each in keys]
    assert list(await store.read([])) == []


async def test_a_swap_is_read_by_its_own_command(store: Store, key: str) -> None:
    """What is read is not older than the swap."""
    _, (value,) = await store.swap_and_read(key, b"", Cell(b"one", LATER), [key])
    assert value == b"one"
    moved = await store.move(key, lambda *_: None, others=[key])
    assert (moved.value, list(moved.others)) == (b"one", [b"one"])


async def age(store: Store, key: str) -> float:
    seen = await store.swap(key, None, Cell(b"", 0))
    assert seen is not None
    return seen.age


async def test_a_value_grows_older_until_it_is_replaced(store: Store, key: str) -> None:
    for before, after in ((b"", b"one"), (b"one", b"two")):
        began = time.monotonic()
        await store.swap(key, before, Cell(after, LATER))
        while (seen := await age(store, key)) < 0.1:
            assert 0 <= seen <= time.monotonic() - began + 0.01


def appending(item: bytes) -> Change:
    return lambda value, age: Cell(value + item, LATER)


async def test_concurrent_movers_lose_nothing(given: Any, store: Store, key: str) -> None:
    """Two stores on one server or file, as two processes have them."""
    items = [bytes([ord("a") + number]) for number in range(MOVERS)]
    async with opened(store_of(given, Clock()) if isinstance(given, str) else store) as other:
        moves = [
            each.move(key, appending(item), known=b"" if item < b"f" else None)
            for each, item in zip([store, other] * MOVERS, items, strict=False)
        ]
        results = await asyncio.gather(*moves)
    (value,) = await store.read([key])
    assert sorted(value) == sorted(b"".join(items))
    assert sorted((each.value for each in results), key=len) == [
        value[: length + 1] for length in range(MOVERS)
    ]


PASSWORD = "s%3Fcret"


@pytest.mark.parametrize(
    "url",
    [
        f"{PASSWORD}",
        f"postgresql://app:{PASSWORD}@host/name",
        f"sqlite:///{PASSWORD}.db",
        f"nosuch+driver://app:{PASSWORD}@host/name",
        f"postgresql+asyncpg://app:{PASSWORD}@host:port/name",
    ],
)
def test_a_url_of_no_asynchronous_driver_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"postgresql\+asyncpg://user:pass") as caught:
        SQLStore(url)
    assert caught.value.code is Code.CONFIGURATION_INVALID
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None


def test_another_database_is_refused() -> None:
    engine = create_async_engine("sqlite+aiosqlite:///sessions.db")
    engine.dialect.name = "oracle"
    with pytest.raises(ConfigurationError, match="PostgreSQL and SQLite, not on oracle"):
        SQLStore(engine)


async def test_an_engine_of_the_application_stays_open(sql_values: SQLStore, sql_url: str) -> None:
    engine = create_async_engine(sql_url)
    store = SQLStore(engine)
    await put_one(store)
    pool = engine.pool
    await store.aclose()
    assert engine.pool is pool
    async with engine.connect() as connection:
        assert (await connection.execute(text("SELECT 1"))).scalar() == 1
    assert await has_one(sql_values)
    await engine.dispose()


async def test_many_processes_may_create_the_table(sql_values: SQLStore, sql_url: str) -> None:
    await sql_values._send(DropTable(table), {})
    stores = [SQLStore(sql_url) for _ in range(5)]
    await asyncio.gather(*(put_one(store) for store in stores))
    await asyncio.gather(*(store.create_tables() for store in stores))
    assert await has_one(sql_values)
    await asyncio.gather(*(store.aclose() for store in stores))


async def drop_connections_but_of(store: SQLStore) -> None:
    """Returns when the server's processes of all other connections have ended."""
    others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    others += " AND backend_type = 'client backend'"
    end = text(f"SELECT pid, pg_terminate_backend(pid) {others}")
    for process, _ in await store._send(end, {}):
        while Path(f"/proc/{process}").exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0)
    await store._send(text("SELECT 1"), {})


async def test_a_connection_that_was_dropped_is_replaced(postgres_url: str) -> None:
    """As after a restart of the server."""
    async with opened_values(postgres_url) as store, opened_values(postgres_url) as other:
        for use in calls_of(store):
            await drop_connections_but_of(other)
            await use
        assert await has_one(store)


@asynccontextmanager
async def occupied(url: str) -> AsyncIterator[None]:
    """Another program has locked the table."""
    if make_url(url).get_backend_name() == "postgresql":
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.execute(text(f"LOCK TABLE {table}"))
            yield
        await engine.dispose()
        return
    other = sqlite3.connect(make_url(url).database or "")
    other.execute("BEGIN EXCLUSIVE")
    yield
    other.rollback()
    other.close()


async def test_a_call_that_takes_too_long_is_given_up(sql_values: SQLStore, sql_url: str) -> None:
    store = SQLStore(sql_url, timeout=0.5)
    await put_one(sql_values)
    async with occupied(sql_url):
        async with asyncio.timeout(DEFAULT_TIMEOUT):
            failures = await asyncio.gather(*calls_of(store), return_exceptions=True)
    codes = {getattr(failure, "code", failure) for failure in failures}
    assert codes == {Code.SESSION_STORE_UNAVAILABLE}
    store._timeout = DEFAULT_TIMEOUT
    assert await has_one(store)
    await store.aclose()


async def test_each_command_is_one_round_trip(tmp_path: Path) -> None:
    """Of a move: one if the value is known, two if it is not, and two if another is stored."""
    with running_postgres(["-c", "log_line_prefix=%a|"]) as (url, server):
        del server
        folder = Path(str(make_url(url).query["host"]))
        engine = create_async_engine(
            url,
            connect_args={"server_settings": {"application_name": "app", "log_statement": "all"}},
        )
        store = SQLStore(engine)
        await store.create_tables()

        async def logged() -> list[str]:
            before = len((folder / "log").read_text())
            await store.swap(KEY, b"", ONE)
            await store.read([KEY, "another", "one more"])
            for known in (ONE.value, None, b"wrong"):
                await store.move(KEY, lambda *_: ONE, known=known)
            await store.swap(KEY, ONE.value, Cell(b"", LATER))
            return re.findall(
                r"^app\|LOG:  (?:statement|execute [^:]*): (\w+)",
                (folder / "log").read_text()[before:],
                re.MULTILINE,
            )

        await logged()  # which prepares the statements, and removes expired rows
        assert await logged() == [
            *("INSERT", "SELECT", "UPDATE"),
            *("SELECT", "UPDATE"),
            *("UPDATE", "SELECT", "UPDATE"),
            "UPDATE",
        ]
        await engine.dispose()


async def changed(sql_values: SQLStore, **values: Any) -> None:
    """Writes the values into every row."""
    await sql_values._send(update(table).values(**values), {})


async def keys_of(sql_values: SQLStore) -> set[str]:
    return {row.key for row in await sql_values._send(select(table.c.key), {})}


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
    assert [tuple(row) for row in await sql_values._send(columns, {})] == [(b"", 0)]


async def test_expired_rows_alone_are_removed_a_thousand_at_a_time(sql_values: SQLStore) -> None:
    expired = [
        {"key": str(number), "value": b"one", "written_at": 1.0, "expires_at": 1.0}
        for number in range(1001)
    ]
    await sql_values._send(table.insert().values(expired), {})
    await put_one(sql_values)
    assert len(await keys_of(sql_values)) == 2
    await sql_values._run(_PURGE)
    assert await keys_of(sql_values) == {KEY}


async def test_a_new_value_removes_expired_rows_but_not_each_new_value(
    sql_values: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr("fastapi_oidc.session.sql.monotonic", lambda: now)
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
    monkeypatch.setattr("fastapi_oidc.session.sql._PURGE", "SELECT * FROM no_table")
    assert await sql_values.swap(KEY, b"", ONE) is None
    assert await has_one(sql_values)


def test_rows_are_found_by_their_end() -> None:
    (index,) = table.indexes
    assert [column.name for column in index.columns] == ["expires_at"]
