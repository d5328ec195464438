"""Connections to a database: URLs, engines, event loops, and a database that fails or is busy."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.schema import DropTable

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.records import Take
from fastapi_oidc.session.revocations import digests_of
from fastapi_oidc.session.sql import SQLSessionStore, metadata
from fastapi_oidc.session.sql.tables import require_supported
from fastapi_oidc.session.stores import DEFAULT_TIMEOUT
from tests.oidc.protocol.examples import refused
from tests.oidc.session.conftest import opened_sql_store
from tests.oidc.session.examples import NOW, User, a_record, a_session, bound, calls_of
from tests.postgres_server import running_postgres

ID = "a" * 43
PASSWORD = "s%3Fcret"


def store_on(engine: AsyncEngine | str, timeout: float = DEFAULT_TIMEOUT) -> SQLSessionStore[User]:
    return bound(SQLSessionStore(engine, User, timeout=timeout))


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
        SQLSessionStore(url, User)
    assert caught.value.code is Code.CONFIGURATION_INVALID
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None


def test_another_database_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="PostgreSQL and SQLite, not on oracle"):
        require_supported("oracle")


@pytest.mark.parametrize("url", ["sqlite+aiosqlite://", "sqlite+aiosqlite:///:memory:"])
def test_sqlite_in_memory_is_refused(url: str) -> None:
    """Its tasks would share one connection, and so their transactions."""
    for engine in (url, create_async_engine(url)):
        with pytest.raises(ConfigurationError, match='session_store="memory"'):
            SQLSessionStore(engine, User)


async def test_an_engine_of_the_application_stays_open(
    sql_store: SQLSessionStore[User], sql_url: str
) -> None:
    engine = create_async_engine(sql_url)
    store = store_on(engine)
    await store.set(ID, a_session())
    pool = engine.pool
    await store.aclose()
    assert engine.pool is pool
    async with engine.connect() as connection:
        assert (await connection.execute(text("SELECT 1"))).scalar() == 1
    assert await sql_store.get(ID) == a_session()
    await engine.dispose()


def test_a_store_made_of_a_url_works_in_one_event_loop_after_another(sql_url: str) -> None:
    """As in tests, where each client of the application has its own."""
    store = store_on(sql_url)

    async def used(closes: bool) -> None:
        await store.create_tables()
        await store.set(ID, a_session())
        assert await store.get(ID) == a_session()
        if closes:
            await store.aclose()
            await store.aclose()

    async def then_closed() -> None:
        await used(closes=True)
        await used(closes=True)

    for _ in range(2):
        asyncio.run(then_closed())


async def test_any_number_of_processes_may_create_the_tables(
    sql_store: SQLSessionStore[User], sql_url: str
) -> None:
    for table in metadata.sorted_tables:
        await sql_store._database.run(DropTable(table), {})
    stores = [store_on(sql_url) for _ in range(5)]
    await asyncio.gather(*(store.create_tables() for store in stores))
    await sql_store.set(ID, a_session())
    await asyncio.gather(*(store.create_tables() for store in stores))
    assert await sql_store.get(ID) == a_session()
    await asyncio.gather(*(store.aclose() for store in stores))


async def drop_connections_but_of(store: SQLSessionStore[User]) -> None:
    """Returns when the server's processes of all other connections have ended."""
    others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    others += " AND backend_type = 'client backend'"
    end = text(f"SELECT pid, pg_terminate_backend(pid) {others}")
    for process, _ in await store._database.run(end, {}):
        while Path(f"/proc/{process}").exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0)
    await store._database.run(text("SELECT 1"), {})


async def test_a_connection_that_was_dropped_is_replaced(postgres_url: str) -> None:
    """As after a restart of the server."""
    take = Take(generation=0, owner="me", hold=9, answered_hold=9)
    async with opened_sql_store(postgres_url) as store, opened_sql_store(postgres_url) as other:
        await store.set(ID, a_session())
        for use in (
            lambda: store.find(ID, digests_of(a_session())),
            lambda: store.revocations.revoke(a_record()),
            lambda: store.records.take("name", take, lifetime=9),
        ):
            await drop_connections_but_of(other)
            await use()
        assert (await store.find(ID, digests_of(a_session())))[1] == "ended_by_provider"


@pytest.mark.parametrize(
    "url", ["postgresql+asyncpg://app@/app?host={}", "sqlite+aiosqlite:///{}/no_database"]
)
async def test_a_database_that_is_gone_is_an_outage(url: str, tmp_path: Path) -> None:
    (tmp_path / "no_database").write_text("of another program")
    store = store_on(url.format(tmp_path))
    for call, code in calls_of(store):
        with refused(code, SessionError):
            await call
    for of_operator in (store.purge(), store.create_tables()):
        with refused(Code.SESSION_STORE_UNAVAILABLE, SessionError):
            await of_operator
    await store.aclose()


async def test_missing_tables_are_an_outage(tmp_path: Path) -> None:
    store = store_on(f"sqlite+aiosqlite:///{tmp_path}/empty.db")
    for call, code in [*calls_of(store), (store.purge(), Code.SESSION_STORE_UNAVAILABLE)]:
        with refused(code, SessionError):
            await call
    await store.aclose()


@asynccontextmanager
async def occupied(url: str) -> AsyncIterator[None]:
    """Another program has locked the tables."""
    if make_url(url).get_backend_name() == "postgresql":
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            for name in metadata.tables:
                await connection.execute(text(f"LOCK TABLE {name}"))
            yield
        await engine.dispose()
        return
    other = sqlite3.connect(make_url(url).database or "")
    other.execute("BEGIN EXCLUSIVE")
    yield
    other.rollback()
    other.close()


async def test_a_call_that_takes_too_long_is_given_up(
    sql_store: SQLSessionStore[User], sql_url: str
) -> None:
    store = store_on(sql_url, timeout=0.5)
    await sql_store.set(ID, a_session())
    async with occupied(sql_url):
        calls, codes = zip(*calls_of(store), strict=True)
        async with asyncio.timeout(DEFAULT_TIMEOUT - 1):
            failures = await asyncio.gather(*calls, return_exceptions=True)
    assert [getattr(failure, "code", failure) for failure in failures] == list(codes)
    await store.aclose()
    assert await store.get(ID) == a_session()
    await store.aclose()


async def test_a_request_costs_one_round_trip(tmp_path: Path) -> None:
    """Two steps of a record cost four: each has a transaction of two statements."""
    with running_postgres(["-c", "log_line_prefix=%a|"]) as (url, server):
        del server
        folder = Path(str(make_url(url).query["host"]))
        engine = create_async_engine(
            url,
            connect_args={"server_settings": {"application_name": "app", "log_statement": "all"}},
        )
        store = store_on(engine)
        await store.create_tables()
        take = Take(generation=0, owner="me", hold=70, answered_hold=20)

        async def logged(number: int) -> list[str]:
            await store.set(ID, a_session())
            before = len((folder / "log").read_text())
            for _ in range(number):
                await store.find(ID, digests_of(a_session()))
                await store.touch(ID, NOW)
            await store.records.take("session-1", take, lifetime=60)
            return re.findall(
                r"^app\|LOG:  (?:statement|execute [^:]*): (\w+)",
                (folder / "log").read_text()[before:],
                re.MULTILINE,
            )

        await logged(1)  # which prepares the statements
        assert await logged(2) == [
            *("SELECT", "UPDATE") * 2,
            *("BEGIN", "INSERT", "UPDATE", "COMMIT"),
        ]
        await engine.dispose()
