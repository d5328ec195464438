"""The store in a table of PostgreSQL or SQLite, by SQLAlchemy 2; needs the extra `sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from time import monotonic
from typing import Any, Final, TypeAlias

from fastapi_oidc.concurrency import PerLoop, TimeLimit
from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.installation import extra
from fastapi_oidc.session import store

with extra("sql", "the store on SQL needs"):
    import greenlet  # noqa: F401 - of SQLAlchemy's extra `asyncio`
    import sqlalchemy as sa
    from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidRequestError
    from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
    from sqlalchemy.schema import CreateIndex, CreateTable

__all__ = ["SQLStore", "metadata"]

_NO_URL: Final = (
    "a database URL is postgresql+asyncpg://user:password@host/name or sqlite+aiosqlite:///file, "
    "percent-encoded, and its driver must be installed"
)

UNDEFINED_TABLE: Final = "42P01"
"""The SQLSTATE of PostgreSQL for a table that is missing (PostgreSQL, Appendix A)."""

PURGE_PAUSE: Final = 10.0
"""Minimum number of seconds between two purges by one process. A purge follows a new value."""

metadata: Final = sa.MetaData()
"""The table of `SQLStore`, for Alembic's `target_metadata`."""

table: Final = sa.Table(
    "fastapi_oidc_values",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
    sa.Column("written_at", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False, index=True),
)
_CREATE: Final[Sequence[sa.Executable]] = (
    CreateTable(table, if_not_exists=True),
    *(CreateIndex(index, if_not_exists=True) for index in table.indexes),
)

_DIALECTS: Final = {
    "postgresql": ("EXTRACT(epoch FROM statement_timestamp())::float8", "FOR UPDATE SKIP LOCKED"),
    "sqlite": ("((julianday('now') - 2440587.5) * 86400.0)", ""),
}
"""When the server received the statement, in seconds since the epoch; how two processes remove
different rows. They stand for NOW and SKIP below.
"""

_READ: Final = "SELECT key, value FROM fastapi_oidc_values WHERE key IN :keys AND expires_at > NOW"
_FIND: Final = (
    "SELECT value, NOW - written_at AS age FROM fastapi_oidc_values "
    "WHERE key = :key AND expires_at > NOW"
)
_INSERT: Final = (
    "INSERT INTO fastapi_oidc_values AS found (key, value, written_at, expires_at) "
    "VALUES (:key, :after, NOW, :ends) ON CONFLICT (key) DO UPDATE SET value = excluded.value, "
    "written_at = excluded.written_at, expires_at = excluded.expires_at "
    "WHERE found.expires_at <= NOW RETURNING key"
)
_REPLACE: Final = (
    "UPDATE fastapi_oidc_values SET value = :after, written_at = NOW, expires_at = :ends "
    "WHERE key = :key AND value = :before AND expires_at > NOW RETURNING key"
)
_PURGE: Final = (
    "DELETE FROM fastapi_oidc_values WHERE key IN "
    "(SELECT key FROM fastapi_oidc_values WHERE expires_at <= NOW LIMIT 1000 SKIP) RETURNING key"
)
"""Not all expired rows at once, so that the lock is short."""

Rows: TypeAlias = Sequence[Any]


@cache
def _statement(sql: str, dialect: str) -> sa.TextClause:
    now, skip = _DIALECTS[dialect]
    statement = sa.text(sql.replace("NOW", now).replace("SKIP", skip))
    keys = sa.bindparam("keys", expanding=True, type_=sa.Text)
    return statement.bindparams(keys) if sql == _READ else statement


class SQLStore(store.Store):
    """Values in one table of PostgreSQL or SQLite, by the clock of the database.

    Takes an engine, which stays the application's to dispose of, or a URL for an asynchronous
    driver. Each operation is one statement, and a second one where `swap` finds another value. A
    call that takes longer than `timeout` seconds, or fails because the database is unavailable,
    raises SessionError (session.store_unavailable).

    A missing table is created when it is first needed, so a user who may not create tables can use
    a database that has it.
    """

    def __init__(
        self,
        engine: AsyncEngine | sa.URL | str,
        *,
        timeout: float = store.DEFAULT_TIMEOUT,
    ) -> None:
        self._given, self._timeout = engine, timeout
        self._engines = PerLoop(
            lambda: self._engine().execution_options(isolation_level="AUTOCOMMIT")
        )
        made = self._engine()
        shown = made.url.set(query={})._replace(username=None, password=None)
        self._address = shown.render_as_string()
        self._dialect = made.dialect.name
        if self._dialect not in _DIALECTS:
            explanation = (
                f"the session store works on PostgreSQL and SQLite, not on {self._dialect}"
            )
            raise misconfigured(explanation)
        self._purge_at = 0.0

    async def create_tables(self) -> None:
        """Create the table and index if they are missing; any number of processes may do so."""
        await store.ask_store(self._create_tables(), self._address, "create tables")

    async def _create_tables(self) -> None:
        for statement in _CREATE:
            try:
                await self._send(statement, {})
            except DBAPIError:  # another process creates the same on PostgreSQL
                await self._send(statement, {})

    async def read(self, keys: Sequence[str], /) -> Sequence[bytes]:
        """See `Store.read`."""
        found = {row.key: row.value for row in await self._run(_READ, keys=list(keys))}
        return [found.get(key, b"") for key in keys]

    async def swap(
        self, key: str, before: bytes | None, after: store.Cell, /
    ) -> store.Stored | None:
        """See `Store.swap`. A new value sometimes also removes expired rows."""
        if before is not None and await self._is_swapped(key, before, after):
            if not before:
                await self._purge_sometimes()
            return None
        rows = await self._run(_FIND, key=key)
        return store.Stored(rows[0].value, rows[0].age) if rows else store.Stored(b"", 0.0)

    async def aclose(self) -> None:
        """Close the connections of this event loop; an engine of the application stays open."""
        engine = self._engines.forget()
        if engine is not None and not isinstance(self._given, AsyncEngine):
            await engine.dispose()

    async def _is_swapped(self, key: str, before: bytes, after: store.Cell) -> bool:
        # A deleted value is empty and has expired.
        ends = after.expires_at if after.value else 0
        if before:
            values = {"key": key, "before": before, "after": after.value, "ends": ends}
            return bool(await self._run(_REPLACE, **values))
        return bool(await self._run(_INSERT, key=key, after=after.value, ends=ends))

    async def _purge_sometimes(self) -> None:
        if monotonic() >= self._purge_at:
            self._purge_at = monotonic() + PURGE_PAUSE
            with suppress(Exception):  # the value is stored; a later one tries again
                await self._run(_PURGE)

    async def _run(self, sql: str, **values: object) -> Rows:
        doing = "read" if sql in (_READ, _FIND) else "write"
        statement = _statement(sql, self._dialect)
        return await store.ask_store(self._execute(statement, values), self._address, doing)

    async def _execute(self, statement: sa.Executable, values: dict[str, object]) -> Rows:
        try:
            return await self._send(statement, values)
        except DBAPIError as error:
            # PostgreSQL tells it in the server's language; SQLite has no code for it.
            is_missing = getattr(error.orig, "sqlstate", None) == UNDEFINED_TABLE
            if not is_missing and "no such table" not in str(error.orig):
                raise
        await self._create_tables()
        return await self._send(statement, values)

    async def _send(self, statement: sa.Executable, values: Mapping[str, object]) -> Rows:
        """The rows that one statement returns: one round trip.

        It is repeated once if its connection was dropped: every statement here may be.
        """
        async with TimeLimit(self._timeout):
            try:
                return await self._send_once(statement, values)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
            return await self._send_once(statement, values)

    async def _send_once(self, statement: sa.Executable, values: Mapping[str, object]) -> Rows:
        # Connections belong to the event loop that opened them.
        async with self._engines.here().connect() as connection:
            result = await connection.execute(statement, values)
            return result.all() if result.returns_rows else ()

    def _engine(self) -> AsyncEngine:
        url = self._given
        if isinstance(url, AsyncEngine):
            return url
        try:
            is_sqlite = sa.make_url(url).get_backend_name() == "sqlite"
            # A thread that waits for the lock of a file cannot be interrupted, so it stops earlier.
            limit = {"timeout": 0.8 * self._timeout} if is_sqlite else {}
            return create_async_engine(url, hide_parameters=True, connect_args=limit)
        except (ArgumentError, InvalidRequestError, ImportError, ValueError, TypeError) as error:
            # Its text may contain a part of a password that was not percent-encoded.
            raised = type(error).__name__
            raise ConfigurationError(Code.CONFIGURATION_INVALID, _NO_URL, raised=raised) from None
