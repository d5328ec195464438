"""Refresh records in a table: each is locked, read, moved on and written in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from fastapi_oidc.session.records import (
    Advance,
    Phase,
    RefreshRecord,
    RefreshRecords,
    Take,
    advanced,
    taken,
)
from fastapi_oidc.session.sql.database import Database
from fastapi_oidc.session.sql.dialects import server_time
from fastapi_oidc.session.sql.tables import locked, refreshes

_FIELDS: Final = (
    "generation",
    "phase",
    "owner",
    "held_until",
    "data",
    "session",
    "last_seen_at",
)
_EMPTY: Final = {name: getattr(RefreshRecord(), name) for name in _FIELDS} | {"expires_at": 0.0}
_LOOK: Final = select(*refreshes.c, server_time().label("now")).where(
    refreshes.c.id == bindparam("id")
)
_WRITE: Final = update(refreshes).where(refreshes.c.id == bindparam("record"))


class SQLRefreshRecords(RefreshRecords):
    """Refresh records that any number of processes share, by the clock of the database server."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = locked(refreshes, database.dialect, _EMPTY)

    async def take(self, id: str, take: Take, *, lifetime: int) -> RefreshRecord:
        """See `RefreshRecords.take`."""
        record = await self._moved(id, lambda record, now: taken(record, take, now), lifetime)
        assert record is not None
        return record

    async def advance(self, id: str, change: Advance, *, lifetime: int) -> bool:
        """See `RefreshRecords.advance`."""
        record = await self._moved(id, lambda record, now: advanced(record, change, now), lifetime)
        return record is not None

    async def look(self, id: str) -> RefreshRecord:
        """See `RefreshRecords.look`."""
        rows = await self._database.run(_LOOK, {"id": id})
        return _record(rows[0]) if rows else RefreshRecord()

    async def aclose(self) -> None:
        """Close the connections that the store opened."""
        await self._database.aclose()

    async def _moved(
        self,
        id: str,
        move: Callable[[RefreshRecord, float], RefreshRecord | None],
        lifetime: int,
    ) -> RefreshRecord | None:
        async def steps(connection: AsyncConnection) -> RefreshRecord | None:
            row = (await connection.execute(self._lock, {"id": id})).one()
            record = move(_record(row), row.now)
            if record is not None:
                values = {name: getattr(record, name) for name in _FIELDS}
                values |= {"record": id, "expires_at": max(row.expires_at, row.now + lifetime)}
                await connection.execute(_WRITE, values)
            return record

        return await self._database.transaction(steps)


def _record(row: Any) -> RefreshRecord:
    """The record in the row; an empty one if it has expired."""
    if row.expires_at <= row.now:
        return RefreshRecord()
    fields = {name: getattr(row, name) for name in _FIELDS}
    return RefreshRecord(**fields | {"phase": Phase(row.phase)})
