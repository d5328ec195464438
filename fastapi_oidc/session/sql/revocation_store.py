"""Revocations in a table: a row for each session id, sid and sub that a record names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, get_args

from sqlalchemy import bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from fastapi_oidc.errors import Code
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.outage import unavailable_as
from fastapi_oidc.session.revocations import (
    Revocation,
    RevocationRecord,
    RevocationStore,
    digest,
    digests_of,
    first_reason,
    keys_of_record,
    stamps_in,
)
from fastapi_oidc.session.sql.database import Database, Rows
from fastapi_oidc.session.sql.dialects import server_time
from fastapi_oidc.session.sql.tables import locked, revocations

_EMPTY: Final = {**Revocation()._asdict(), "expires_at": 0.0}
_FIND: Final = select(revocations).where(
    revocations.c.key.in_(bindparam("digests", expanding=True)),
    revocations.c.expires_at > server_time(),
)
_WRITE: Final = update(revocations).where(revocations.c.key == bindparam("digest"))


class SQLRevocationStore(RevocationStore):
    """Revocations that any number of processes share; a lookup is one statement.

    Every method raises SessionError (session.revocation_unavailable) when the database is
    unavailable.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = locked(revocations, database.dialect, _EMPTY)

    async def revoke(self, record: RevocationRecord, /) -> None:
        """See `RevocationStore.revoke`."""
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            for key in map(digest, keys_of_record(record)):
                await self._merge(key, record)

    async def ended_by(self, session: OIDCSession[Identity], /) -> EndReason | None:
        """See `RevocationStore.ended_by`."""
        return first_reason(session, await self._found(session))

    async def stamps(self, session: OIDCSession[Identity], /) -> tuple[str, ...]:
        """See `RevocationStore.stamps`."""
        return stamps_in(await self._found(session))

    async def aclose(self) -> None:
        """Close the connections that the store opened."""
        await self._database.aclose()

    async def _merge(self, key: str, record: RevocationRecord) -> None:
        async def steps(connection: AsyncConnection) -> None:
            row = (await connection.execute(self._lock, {"key": key})).one()
            merged = Revocation.of(record).merged(_revocation(row))
            expires_at = max(row.expires_at, record.expires_at)
            values = {**merged._asdict(), "expires_at": expires_at, "digest": key}
            await connection.execute(_WRITE, values)

        await self._database.transaction(steps)

    async def _found(self, session: OIDCSession[Identity]) -> list[Revocation | None]:
        digests = digests_of(session)
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            return revocations_in(await self._database.run(_FIND, {"digests": digests}), digests)


def revocations_in(rows: Rows, digests: Sequence[str]) -> list[Revocation | None]:
    """The revocation under each digest."""
    found = {row.key: _revocation(row) for row in rows}
    return [found.get(digest) for digest in digests]


def _revocation(row: Any) -> Revocation:
    reasons: tuple[EndReason, ...] = get_args(EndReason)
    reason: EndReason = next((each for each in reasons if each == row.reason), "revoked")
    return Revocation(row.provider, row.stamp, reason)
