"""What PostgreSQL and SQLite each have a form of their own for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from sqlalchemy import Double, FunctionElement, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles

from fastapi_oidc.errors import Code, ConfigurationError

Insert: TypeAlias = postgresql.Insert | sqlite.Insert

INSERTS: Final[Mapping[str, Callable[[Table], Insert]]] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}


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


def require_supported(dialect: str) -> None:
    """Raise ConfigurationError (configuration.invalid) unless the database is supported."""
    if dialect not in INSERTS:
        explanation = f"the session store works on PostgreSQL and SQLite, not on {dialect}"
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
