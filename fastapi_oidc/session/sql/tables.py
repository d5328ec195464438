"""The tables of the store, and the statements that both PostgreSQL and SQLite understand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Executable,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
)

from fastapi_oidc.session.sql.dialects import INSERTS, Insert, server_time

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


def put(table: Table, dialect: str) -> Insert:
    """The statement that inserts a row, in place of one with the same key."""
    insert = INSERTS[dialect](table)
    others = {each.name: insert.excluded[each.name] for each in table.c if not each.primary_key}
    return insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=others)


def locked(table: Table, dialect: str, empty: Mapping[str, object]) -> Executable:
    """The statement that returns a row and `now`, and locks the row until its transaction ends.

    A missing row is inserted as `empty`, so that there is one to lock. One transaction after the
    other has the row, each with what the one before has written.
    """
    (key,) = table.primary_key.columns
    insert = INSERTS[dialect](table).values({**empty, key.name: bindparam(key.name)})
    found = insert.on_conflict_do_update(
        index_elements=[key], set_={"expires_at": table.c.expires_at}
    )
    return found.returning(*table.c, server_time().label("now"))
