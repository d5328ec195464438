"""Sessions in a table: a row for each, read together with its revocations."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from sqlalchemy import URL, Executable, Table
from sqlalchemy.ext.asyncio import AsyncEngine

from fastapi_oidc.errors import Code
from fastapi_oidc.session.codec import SealedRows, SessionCodec
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.outage import unavailable_as
from fastapi_oidc.session.records import RefreshRecords
from fastapi_oidc.session.revocations import (
    RevocationStore,
    are_current,
    digest,
    first_reason,
    user_key,
)
from fastapi_oidc.session.sealing import Sealer
from fastapi_oidc.session.sql.database import Database, Rows
from fastapi_oidc.session.sql.records import SQLRefreshRecords
from fastapi_oidc.session.sql.revocation_store import SQLRevocationStore, revocations_in
from fastapi_oidc.session.sql.statements import (
    DELETE,
    EXPIRED,
    FIND,
    FIND_BY_SESSION_ID,
    GET,
    LIST,
    REPLACE,
    TOUCH,
)
from fastapi_oidc.session.sql.tables import metadata, put, sessions
from fastapi_oidc.session.stores import DEFAULT_TIMEOUT, SessionStore

PURGE_PAUSE: Final = 10.0
"""Minimum number of seconds between two logins of a process that remove expired rows."""


class SQLSessionStore(SessionStore[Identity]):
    """Sessions, revocations and refresh records in three tables of PostgreSQL or SQLite.

    Takes an engine, which stays the application's to dispose of, or a URL for an asynchronous
    driver. Rows are sealed with the `cookie_secret` of the `OIDC` object that uses the store;
    before that, methods that read or write a session raise ConfigurationError
    (configuration.invalid). Every method raises SessionError (session.store_unavailable,
    session.revocation_unavailable) when the database is unavailable.
    """

    records_last_use = returns_copies = True

    def __init__(
        self,
        engine: AsyncEngine | URL | str,
        identity_type: type[Identity],
        *,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._database = Database(engine, timeout)
        self._revocations = SQLRevocationStore(self._database)
        self._records = SQLRefreshRecords(self._database)
        self._contents = SealedRows(identity_type)
        self._put = put(sessions, self._database.dialect)
        self._purge_at = 0.0

    @property
    def revocations(self) -> RevocationStore:
        """The records in the same database; also for `back_channel_logout_store`."""
        return self._revocations

    @property
    def records(self) -> RefreshRecords:
        """The records in the same database; also for `refresh_lock`."""
        return self._records

    def bind(self, codec: SessionCodec[Any], sealer: Sealer, /) -> None:
        """See `SessionStore.bind`; of several `OIDC` objects the first one seals, and all open."""
        self._contents.bind(sealer)

    async def create_tables(self) -> None:
        """Create the tables and indexes that are missing; any number of processes may do so."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            await self._database.create_tables(metadata)

    async def purge(self) -> int:
        """Remove all rows that have expired, a thousand at a time, and return their number."""
        removed = 0
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            for table in metadata.sorted_tables:
                while count := await self._purge_some(table):
                    removed += count
        return removed

    async def get(self, id: str, /) -> OIDCSession[Identity] | None:
        """See `SessionStore.get`."""
        rows = await self._run(GET, row=id)
        return self._session(rows[0]) if rows else None

    async def set(self, id: str, session: OIDCSession[Identity], /) -> None:
        """See `SessionStore.set`; sometimes also removes expired rows."""
        await self._run(
            self._put,
            id=id,
            session_id=session.id,
            user_digest=digest(user_key(session.issuer, session.client_id, session.sub)),
            generation=session.generation,
            last_seen_at=session.last_seen_at or 0,
            expires_at=session.expires_at,
            content=self._contents.seal(id, session),
        )
        if monotonic() >= self._purge_at:
            self._purge_at = monotonic() + PURGE_PAUSE
            with suppress(Exception):  # the session is stored; the next login tries again
                for table in metadata.sorted_tables:
                    await self._purge_some(table)

    async def delete(self, id: str, /) -> None:
        """See `SessionStore.delete`."""
        await self._run(DELETE, row=id)

    async def replace(self, id: str, session: OIDCSession[Identity], /) -> bool:
        """See `SessionStore.replace`; one statement."""
        rows = await self._run(
            REPLACE,
            row=id,
            next=session.generation,
            seen=session.last_seen_at or 0,
            ends=session.expires_at,
            sealed=self._contents.seal(id, session),
        )
        return bool(rows)

    async def touch(self, id: str, at: int, /) -> None:
        """See `SessionStore.touch`; one statement."""
        await self._run(TOUCH, row=id, seen=at)

    async def sessions_of(
        self, issuer: str, client_id: str, sub: str, /
    ) -> Sequence[OIDCSession[Identity]]:
        """The user's sessions, the first to end first; the last thousand of them."""
        rows = await self._run(LIST, user=digest(user_key(issuer, client_id, sub)))
        found = map(self._session, reversed(rows))
        return [session for session in found if session is not None]

    async def find_by_session_id(
        self, session_id: str, /
    ) -> tuple[str, OIDCSession[Identity]] | None:
        """The session with this id, and the id of its row."""
        for row in await self._run(FIND_BY_SESSION_ID, name=session_id):
            session = self._session(row)
            if session is not None and session.id == session_id:
                return row.id, session
        return None

    async def find(
        self, id: str, digests: Sequence[str], /
    ) -> tuple[OIDCSession[Identity] | None, EndReason | None]:
        """See `SessionStore.find`; one statement."""
        rows = await self._run(FIND, row=id, digests=digests)
        session = self._session(rows[0]) if rows else None
        if session is None:
            return None, None
        if not are_current(digests, session):
            return session, await self._revocations.ended_by(session)
        return session, first_reason(session, revocations_in(rows, digests))

    async def aclose(self) -> None:
        """Close the connections that the store opened; an engine of the application stays open."""
        await self._database.aclose()

    async def _run(self, statement: Executable, **values: object) -> Rows:
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            return await self._database.run(statement, values)

    async def _purge_some(self, table: Table) -> int:
        return len(await self._database.run(EXPIRED[table.name], {}))

    def _session(self, row: Any) -> OIDCSession[Identity] | None:
        return self._contents.open(row.id, row.content, row.last_seen_at)
