"""Statements to one database, each with a time limit and a transaction of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import URL, Double, Executable, FunctionElement, StaticPool, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.ext.compiler import compiles

from fastapi_oidc.concurrency import PerLoop
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.outage import Place

DIALECTS: Final = ("postgresql", "sqlite")

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


class Database:
    """An engine of the application, or a URL, from which each event loop gets an engine.

    A call that takes longer than `timeout` seconds raises TimeoutError. A dropped connection is
    replaced once: every call here may be repeated.
    """

    def __init__(self, engine: AsyncEngine | URL | str, timeout: float) -> None:
        self._given, self._timeout = engine, timeout
        self._engines = PerLoop(
            lambda: self._engine().execution_options(isolation_level="AUTOCOMMIT")
        )
        made = self._engine()
        self.dialect, self.place = made.dialect.name, _place_of(made.url)
        _require_supported(self.dialect)
        if isinstance(made.pool, StaticPool):
            explanation = 'SQLite needs a file here; for sessions in memory: session_store="memory"'
            raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)

    async def run(self, statement: Executable, values: Mapping[str, object]) -> Rows:
        """The rows that one statement returns: one round trip."""
        async with asyncio.timeout(self._timeout):
            try:
                return await self._execute(statement, values)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
            return await self._execute(statement, values)

    async def aclose(self) -> None:
        """Close the connections of this event loop's engine, unless the application made it."""
        engine = self._engines.forget()
        if engine is not None and not isinstance(self._given, AsyncEngine):
            await engine.dispose()

    async def _execute(self, statement: Executable, values: Mapping[str, object]) -> Rows:
        async with self.here().connect() as connection:
            result = await connection.execute(statement, values)
            return result.all() if result.returns_rows else ()

    def here(self) -> AsyncEngine:
        """The engine of this event loop: connections belong to the one that opened them."""
        return self._engines.here()

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


def _require_supported(dialect: str) -> None:
    if dialect not in DIALECTS:
        explanation = f"the session store works on PostgreSQL and SQLite, not on {dialect}"
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)


def _place_of(url: URL) -> Place:
    shown = url.set(query={})._replace(username=None, password=None)
    return Place(shown.render_as_string(), (url.password,) if url.password else ())
