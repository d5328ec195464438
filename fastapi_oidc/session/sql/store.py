"""The store in a table of PostgreSQL or SQLite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    URL,
    Column,
    Double,
    Executable,
    FunctionElement,
    LargeBinary,
    MetaData,
    Select,
    StaticPool,
    Table,
    Text,
    bindparam,
    delete,
    literal_column,
    make_url,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex, CreateTable

from fastapi_oidc.concurrency import PerLoop, TimeLimit
from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.session.store import (
    DEFAULT_TIMEOUT,
    Cell,
    Place,
    Store,
    Stored,
    ask_store,
    lacks_table,
)

_NO_URL: Final = (
    "a database URL is postgresql+asyncpg://user:password@host/name or sqlite+aiosqlite:///file, "
    "percent-encoded, and its driver must be installed"
)

Rows: TypeAlias = Sequence[Any]


class server_time(FunctionElement[float]):  # noqa: N801 - an SQL function
    """When the database server received the statement, in seconds since the epoch."""

    type = Double()
    inherit_cache = True


@compiles(server_time, "postgresql")
def _postgresql_time(*_: Any, **__: Any) -> str:
    return "EXTRACT(epoch FROM statement_timestamp())::float8"


@compiles(server_time, "sqlite")
def _sqlite_time(*_: Any, **__: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


def _place_of(url: URL) -> Place:
    shown = url.set(query={})._replace(username=None, password=None)
    return Place(shown.render_as_string(), (url.password,) if url.password else ())


PURGED_AT_ONCE: Final = 1000
"""Maximum number of expired rows that one statement removes, so that its lock is short."""

PURGE_PAUSE: Final = 10.0
"""Minimum number of seconds between two purges by one process. A purge follows a new value."""

metadata: Final = MetaData()
"""The table of `SQLStore`, for Alembic's `target_metadata`."""

table: Final = Table(
    "fastapi_oidc_values",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("written_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False, index=True),
)
_row: Final = table.c
_IS_ALIVE: Final = _row.expires_at > server_time()
_READ: Final = select(_row.key, _row.value).where(
    _row.key.in_(bindparam("keys", expanding=True)), _IS_ALIVE
)
_FIND: Final = select(_row.value, (server_time() - _row.written_at).label("age")).where(
    _row.key == bindparam("of_key"), _IS_ALIVE
)
_AFTER: Final = {
    "value": bindparam("after"),
    "written_at": server_time(),
    "expires_at": bindparam("ends"),
}
_REPLACE: Final = (
    update(table)
    .where(_row.key == bindparam("of_key"), _row.value == bindparam("before"), _IS_ALIVE)
    .values(_AFTER)
    .returning(_row.key)
)
_EXPIRED: Final = select(_row.key).where(_row.expires_at <= server_time()).limit(PURGED_AT_ONCE)
_PURGE: Final[Executable] = (
    delete(table)
    # Two processes remove different rows.
    .where(_row.key.in_(_EXPIRED.with_for_update(skip_locked=True)))
    .returning(literal_column("1"))
)


_CREATE: Final[Sequence[Executable]] = (
    CreateTable(table, if_not_exists=True),
    *(CreateIndex(index, if_not_exists=True) for index in table.indexes),
)
_INSERTS: Final[Mapping[str, Callable[[Table], postgresql.Insert | sqlite.Insert]]] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}


class SQLStore(Store):
    """Values in one table of PostgreSQL or SQLite, by the clock of the database.

    Takes an engine, which stays the application's to dispose of, or a URL for an asynchronous
    driver. Each operation is one statement, and a second one where `swap` finds another value. A
    call that takes longer than `timeout` seconds, or fails because the database is unavailable,
    raises SessionError (session.store_unavailable).

    With `creates_tables`, a missing table is created when it is first needed, so a user who may not
    create tables can use a database that has it.
    """

    def __init__(
        self,
        engine: AsyncEngine | URL | str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        creates_tables: bool = False,
    ) -> None:
        self._given, self._timeout, self._creates_tables = engine, timeout, creates_tables
        self._engines = PerLoop(
            lambda: self._engine().execution_options(isolation_level="AUTOCOMMIT")
        )
        made = self._engine()
        self._place, dialect = _place_of(made.url), made.dialect.name
        if dialect not in _INSERTS:
            explanation = f"the session store works on PostgreSQL and SQLite, not on {dialect}"
            raise misconfigured(explanation)
        if isinstance(made.pool, StaticPool):
            explanation = 'SQLite needs a file here; for sessions in memory: session_store="memory"'
            raise misconfigured(explanation)
        self._insert = _insert(dialect)
        self._purge_at = 0.0

    async def create_tables(self) -> None:
        """Create the table and index if they are missing; any number of processes may do so."""
        await ask_store(self._create_tables(), self._place, "create tables")

    async def _create_tables(self) -> None:
        for statement in _CREATE:
            try:
                await self._send(statement, {})
            except DBAPIError:  # another process creates the same on PostgreSQL
                await self._send(statement, {})

    async def purge(self) -> int:
        """Remove all rows that have expired, a thousand at a time, and return their number."""
        removed = 0
        while count := len(await self._run(_PURGE)):
            removed += count
        return removed

    async def read(self, keys: Sequence[str], /) -> Sequence[bytes]:
        """See `Store.read`."""
        found = {row.key: row.value for row in await self._run(_READ, keys=list(keys))}
        return [found.get(key, b"") for key in keys]

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        """See `Store.swap`. A new value sometimes also removes expired rows."""
        if before is not None and await self._is_swapped(key, before, after):
            if not before:
                await self._purge_sometimes()
            return None
        rows = await self._run(_FIND, of_key=key)
        return Stored(rows[0].value, rows[0].age) if rows else Stored(b"", 0.0)

    async def aclose(self) -> None:
        """Close the connections of this event loop; an engine of the application stays open."""
        engine = self._engines.forget()
        if engine is not None and not isinstance(self._given, AsyncEngine):
            await engine.dispose()

    async def _is_swapped(self, key: str, before: bytes, after: Cell) -> bool:
        # A deleted value is empty and has expired.
        ends = after.expires_at if after.value else 0
        if before:
            values = {"of_key": key, "before": before, "after": after.value, "ends": ends}
            return bool(await self._run(_REPLACE, **values))
        return bool(await self._run(self._insert, of_key=key, after=after.value, ends=ends))

    async def _purge_sometimes(self) -> None:
        if monotonic() >= self._purge_at:
            self._purge_at = monotonic() + PURGE_PAUSE
            with suppress(Exception):  # the value is stored; a later one tries again
                await self._run(_PURGE)

    async def _run(self, statement: Executable, **values: object) -> Rows:
        doing = "read" if isinstance(statement, Select) else "write"
        return await ask_store(self._execute(statement, values), self._place, doing)

    async def _execute(self, statement: Executable, values: dict[str, object]) -> Rows:
        try:
            return await self._send(statement, values)
        except DBAPIError as error:
            if not self._creates_tables or not lacks_table(str(error.orig)):
                raise
        await self._create_tables()
        self._creates_tables = False
        return await self._send(statement, values)

    async def _send(self, statement: Executable, values: Mapping[str, object]) -> Rows:
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

    async def _send_once(self, statement: Executable, values: Mapping[str, object]) -> Rows:
        # Connections belong to the event loop that opened them.
        async with self._engines.here().connect() as connection:
            result = await connection.execute(statement, values)
            return result.all() if result.returns_rows else ()

    def _engine(self) -> AsyncEngine:
        url = self._given
        if isinstance(url, AsyncEngine):
            return url
        try:
            is_sqlite = make_url(url).get_backend_name() == "sqlite"
            # A thread that waits for the lock of a file cannot be interrupted, so it stops earlier.
            limit = {"timeout": 0.8 * self._timeout} if is_sqlite else {}
            return create_async_engine(url, hide_parameters=True, connect_args=limit)
        except (ArgumentError, InvalidRequestError, ImportError, ValueError, TypeError) as error:
            # Its text may contain a part of a password that was not percent-encoded.
            raised = type(error).__name__
            raise ConfigurationError(Code.CONFIGURATION_INVALID, _NO_URL, raised=raised) from None


def _insert(dialect: str) -> Executable:
    """The statement that stores a value where there is none that has not expired."""
    insert = _INSERTS[dialect](table).values(key=bindparam("of_key"), **_AFTER)
    taken = insert.on_conflict_do_update(
        index_elements=[_row.key], set_=_AFTER, where=_row.expires_at <= server_time()
    )
    return taken.returning(_row.key)
