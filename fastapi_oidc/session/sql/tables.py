"""The tables of the store, and the statements that both PostgreSQL and SQLite understand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Executable,
    FunctionElement,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles

from fastapi_oidc.errors import Code, ConfigurationError

Insert: TypeAlias = postgresql.Insert | sqlite.Insert

metadata: Final = MetaData()
"""The tables of `SQLSessionStore`, for Alembic's `target_metadata`."""

sessions: Final = Table(
    "fastapi_oidc_sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session_id", Text, nullable=False, index=True),
    Column("user_digest", Text, nullable=False, index=True),
    Column("generation", Integer, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
    Column("expires_at", Double, nullable=False, index=True),
    Column("content", LargeBinary, nullable=False),
)
revocations: Final = Table(
    "fastapi_oidc_revocations",
    metadata,
    Column("key", Text, primary_key=True),
    Column("provider", BigInteger, nullable=False),
    Column("stamp", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("expires_at", Double, nullable=False, index=True),
)
refreshes: Final = Table(
    "fastapi_oidc_refreshes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("phase", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("held_until", Double, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("session", LargeBinary, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
    Column("expires_at", Double, nullable=False, index=True),
)

_INSERTS: Final[Mapping[str, Callable[[Table], Insert]]] = {
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
    if dialect not in _INSERTS:
        explanation = f"the session store works on PostgreSQL and SQLite, not on {dialect}"
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)


def put(table: Table, dialect: str) -> Insert:
    """The statement that inserts a row, in place of one with the same key."""
    insert = _INSERTS[dialect](table)
    others = {each.name: insert.excluded[each.name] for each in table.c if not each.primary_key}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=others)


def locked(table: Table, dialect: str, empty: Mapping[str, object]) -> Executable:
    """The statement that returns a row and `now`, and locks the row until its transaction ends.

    A missing row is inserted as `empty`, so that there is one to lock. One transaction after the
    other has the row, each with what the one before has written.
    """
    (key,) = table.primary_key.columns
    insert = _INSERTS[dialect](table).values({**empty, key.name: bindparam(key.name)})
    found = insert.on_conflict_do_update(
        index_elements=[key], set_={"expires_at": table.c.expires_at}
    )
    return found.returning(*table.c, server_time().label("now"))
