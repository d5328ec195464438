"""Statements to one database, each with a time limit."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Executable, MetaData, StaticPool, func, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.schema import CreateIndex, CreateTable

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.outage import Place
from fastapi_oidc.session.sql.dialects import require_supported

CREATING: Final = 0x01DC
"""The advisory lock under which PostgreSQL creates the tables, one process at a time."""

_NO_URL: Final = (
    "a database URL is postgresql+asyncpg://user:password@host/name or sqlite+aiosqlite:///file, "
    "percent-encoded, and its driver must be installed"
)
_LEVELS: Final = {"postgresql": "READ COMMITTED", "sqlite": "SERIALIZABLE"}

Values: TypeAlias = Mapping[str, object]
Rows: TypeAlias = Sequence[Any]
Result = TypeVar("Result")


class _Engines(NamedTuple):
    """Two ways to use one pool, in one event loop."""

    autocommit: AsyncEngine
    transactions: AsyncEngine


class Database:
    """An engine of the application, or a URL, from which each event loop gets an engine.

    A call that takes longer than `timeout` seconds raises TimeoutError. A dropped connection is
    replaced once: every call here may be repeated.
    """

    def __init__(self, engine: AsyncEngine | URL | str, timeout: float) -> None:
        self._given, self._timeout = engine, timeout
        self._engines: WeakKeyDictionary[AbstractEventLoop, _Engines] = WeakKeyDictionary()
        made = engine if isinstance(engine, AsyncEngine) else _engine_of(engine, timeout)
        self.dialect = made.dialect.name
        self.place = _place_of(made.url)
        require_supported(self.dialect)
        if isinstance(made.pool, StaticPool):
            explanation = 'SQLite needs a file here; for sessions in memory: session_store="memory"'
            raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)

    async def run(self, statement: Executable, values: Values) -> Rows:
        """The rows that one statement returns, which is its own transaction: one round trip."""

        async def operation(connection: AsyncConnection) -> Rows:
            result = await connection.execute(statement, values)
            return result.all() if result.returns_rows else ()

        return await self._run(self._here().autocommit, operation)

    async def transaction(self, steps: Callable[[AsyncConnection], Awaitable[Result]]) -> Result:
        """The result of `steps`, in one transaction."""
        return await self._run(self._here().transactions, steps)

    async def create_tables(self, metadata: MetaData) -> None:
        """Create the tables and indexes of `metadata` that are missing."""

        async def steps(connection: AsyncConnection) -> None:
            if self.dialect == "postgresql":
                await connection.execute(select(func.pg_advisory_xact_lock(CREATING)))
            for table in metadata.sorted_tables:
                await connection.execute(CreateTable(table, if_not_exists=True))
                for index in table.indexes:
                    await connection.execute(CreateIndex(index, if_not_exists=True))

        await self.transaction(steps)

    async def aclose(self) -> None:
        """Close the connections of this event loop's engine, unless the application made it."""
        engines = self._engines.pop(asyncio.get_running_loop(), None)
        if engines is not None and not isinstance(self._given, AsyncEngine):
            await engines.autocommit.dispose()

    async def _run(
        self, engine: AsyncEngine, operation: Callable[[AsyncConnection], Awaitable[Result]]
    ) -> Result:
        async with asyncio.timeout(self._timeout):
            try:
                async with engine.begin() as connection:
                    return await operation(connection)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
            async with engine.begin() as connection:
                return await operation(connection)

    def _here(self) -> _Engines:
        loop = asyncio.get_running_loop()
        engines = self._engines.get(loop)
        if engines is None:  # connections belong to the event loop that opened them
            given = self._given
            engine = given if isinstance(given, AsyncEngine) else _engine_of(given, self._timeout)
            engines = self._engines[loop] = _Engines(
                engine.execution_options(isolation_level="AUTOCOMMIT"),
                engine.execution_options(isolation_level=_LEVELS[self.dialect]),
            )
        return engines


def _place_of(url: URL) -> Place:
    shown = url.set(query={})
    shown = shown._replace(username=None, password=None)
    return Place(shown.render_as_string(), (url.password,) if url.password else ())


def _engine_of(url: URL | str, timeout: float) -> AsyncEngine:
    try:
        is_sqlite = make_url(url).get_backend_name() == "sqlite"
        # A thread that waits for the lock of a file cannot be interrupted, so it stops earlier.
        limit = {"timeout": 0.8 * timeout} if is_sqlite else {}
        return create_async_engine(url, hide_parameters=True, connect_args=limit)
    except (ArgumentError, InvalidRequestError, ImportError, ValueError, TypeError) as error:
        # Its text may contain a part of a password that was not percent-encoded.
        raised = type(error).__name__
        raise ConfigurationError(Code.CONFIGURATION_INVALID, _NO_URL, raised=raised) from None
