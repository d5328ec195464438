"""Stores in this process's memory: for development, tests and single-process services."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, Generic, TypeAlias, TypeVar

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.codec import SessionCodec, SessionReader
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.records import MemoryRefreshLock, RefreshRecords
from fastapi_oidc.session.revocations import (
    Key,
    Revocation,
    RevocationRecord,
    RevocationStore,
    first_reason,
    keys_of_record,
    keys_of_session,
    stamps_in,
)
from fastapi_oidc.session.sealing import DecryptionCache, Sealer
from fastapi_oidc.session.stores import SessionStore
from fastapi_oidc.ttl_cache import TTLCache

REMOVALS_WHEN_FULL: Final = 1000
"""Maximum number of expired entries that a full store removes for a new one."""

CHECKED_PER_LOGIN: Final = 4
"""Number of a user's oldest sessions that a login checks, to drop expired ones from the list."""

Entry = TypeVar("Entry", bound=Hashable)
Readers: TypeAlias = DecryptionCache[bytes, SessionReader[Identity]]


class MemoryRevocationStore(RevocationStore):
    """Revocation records in memory, `max_records` at most.

    A full store raises SessionError (session.revocation_unavailable), so no logout is lost.
    """

    is_in_memory = True

    def __init__(self, *, clock: Clock | None = None, max_records: int = 100_000) -> None:
        self._clock = clock or Clock()
        self._found: TTLCache[Key, Revocation] = TTLCache(self._clock)
        self._max_records = max_records
        self.has_records = False
        """Whether there ever was a record; a plain attribute, because every request reads it."""

    async def revoke(self, record: RevocationRecord, /) -> None:
        """See `RevocationStore.revoke`."""
        self.has_records = True
        for key in keys_of_record(record):
            _require_room(self._found, key, self._max_records, Code.SESSION_REVOCATION_UNAVAILABLE)
            merged = Revocation.of(record).merged(self._found.get(key))
            expires_at = max(record.expires_at, self._found.expires_at(key))
            self._found.set(key, merged, expires_at=expires_at)

    async def ended_by(self, session: OIDCSession[Identity], /) -> EndReason | None:
        """See `RevocationStore.ended_by`."""
        return self.reason(session)

    async def stamps(self, session: OIDCSession[Identity], /) -> tuple[str, ...]:
        """See `RevocationStore.stamps`."""
        return stamps_in(self._values(session))

    def reason(self, session: OIDCSession[Identity]) -> EndReason | None:
        """Like `ended_by`, for sync callers."""
        return first_reason(session, self._values(session)) if self.has_records else None

    def _values(self, session: OIDCSession[Identity]) -> list[Revocation | None]:
        return [self._found.get(key) for key in keys_of_session(session)]


@dataclass(slots=True)
class _Row(Generic[Identity]):
    """An encoded session for `readers`; without readers, a copy of the session."""

    content: Any
    readers: Readers[Identity] | None
    user: tuple[str, str, str]
    session_id: str
    generation: int
    last_seen_at: int | None = None


class MemorySessionStore(SessionStore[Identity]):
    """Sessions, revocations and refresh records in memory.

    Takes `max_sessions` at most, and as many of the others; a full store raises SessionError
    (session.store_unavailable). Sessions are encoded once the store is given to an `OIDC` object or
    an `identity_type`, and are deep copies before.
    """

    records_last_use = returns_copies = is_in_memory = True

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        max_sessions: int = 100_000,
        identity_type: type[Identity] | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self._rows: TTLCache[str, _Row[Identity]] = TTLCache(self._clock)
        self._users: TTLCache[tuple[str, str, str], dict[str, None]] = TTLCache(self._clock)
        self._ids: TTLCache[str, str] = TTLCache(self._clock)
        self._revocations = MemoryRevocationStore(clock=self._clock, max_records=max_sessions)
        self._records = MemoryRefreshLock(clock=self._clock, max_records=max_sessions)
        self._max_sessions = max_sessions
        self._codec: SessionCodec[Identity] | None = None
        self._readers: Readers[Identity] | None = None
        self._is_shared = False
        if identity_type is not None:
            self._write_with(SessionCodec(identity_type))

    @property
    def revocations(self) -> RevocationStore:
        """The store's own records, in the same memory."""
        return self._revocations

    @property
    def records(self) -> RefreshRecords:
        """The store's own records, in the same memory."""
        return self._records

    def bind(self, codec: SessionCodec[Identity], sealer: Sealer, /) -> None:
        """Encode sessions with `codec`; copy them if `OIDC` objects differ in their identity."""
        if self._codec is not None and self._codec.identity_type != codec.identity_type:
            self._is_shared = True
        self._write_with(None if self._is_shared else codec)

    async def get(self, id: str, /) -> OIDCSession[Identity] | None:
        """See `SessionStore.get`."""
        row = self._rows.get(id)
        return None if row is None else _session_in(row)

    async def set(self, id: str, session: OIDCSession[Identity], /) -> None:
        """See `SessionStore.set`."""
        _require_room(self._rows, id, self._max_sessions, Code.SESSION_STORE_UNAVAILABLE)
        user = (session.issuer, session.client_id, session.sub)
        self._rows.set(id, self._row(session, user), expires_at=session.expires_at)
        self._ids.set(session.id, id, expires_at=session.expires_at)
        ids = self._users.get(user) or {}
        for oldest in list(islice(ids, CHECKED_PER_LOGIN)):
            if oldest not in self._rows:
                del ids[oldest]
        ids[id] = None
        expires_at = max(session.expires_at, self._users.expires_at(user))
        self._users.set(user, ids, expires_at=expires_at)

    async def delete(self, id: str, /) -> None:
        """See `SessionStore.delete`."""
        row = self._rows.pop(id)
        if row is not None:
            self._ids.pop(row.session_id)
            (self._users.get(row.user) or {}).pop(id, None)

    async def replace(self, id: str, session: OIDCSession[Identity], /) -> bool:
        """See `SessionStore.replace`; this one is atomic."""
        before = self._rows.get(id)
        if before is None or before.generation >= session.generation:
            return False
        row = self._row(session, before.user)
        if before.last_seen_at is not None:
            row = replace(row, last_seen_at=max(before.last_seen_at, session.last_seen_at or 0))
        self._rows.set(id, row, expires_at=session.expires_at)
        return True

    async def touch(self, id: str, at: int, /) -> None:
        """See `SessionStore.touch`."""
        row = self._rows.get(id)
        if row is not None:
            row.last_seen_at = max(at, row.last_seen_at or 0)

    async def sessions_of(
        self, issuer: str, client_id: str, sub: str, /
    ) -> Sequence[OIDCSession[Identity]]:
        """The user's sessions, oldest first."""
        ids = self._users.get((issuer, client_id, sub)) or {}
        sessions = [session for id in ids if (session := await self.get(id)) is not None]
        return sorted(sessions, key=lambda session: session.created_at)

    async def find_by_session_id(
        self, session_id: str, /
    ) -> tuple[str, OIDCSession[Identity]] | None:
        """See `SessionStore.find_by_session_id`."""
        id = self._ids.get(session_id)
        session = None if id is None else await self.get(id)
        return None if id is None or session is None else (id, session)

    async def find(
        self, id: str, digests: Sequence[str], /
    ) -> tuple[OIDCSession[Identity] | None, EndReason | None]:
        """See `SessionStore.find`."""
        row = self._rows.get(id)
        if row is None:
            return None, None
        session = _session_in(row)
        return session, self._revocations.reason(session)

    def _write_with(self, codec: SessionCodec[Identity] | None) -> None:
        self._codec = codec
        self._readers = None if codec is None else _readers_of(codec, self._clock)

    def _row(self, session: OIDCSession[Identity], user: tuple[str, str, str]) -> _Row[Identity]:
        codec = self._codec
        content = session.model_copy(deep=True) if codec is None else codec.encode(session)
        return _Row(content, self._readers, user, session.id, session.generation)


def _session_in(row: _Row[Identity]) -> OIDCSession[Identity]:
    readers, content = row.readers, row.content
    session: OIDCSession[Identity]
    session = content.model_copy(deep=True) if readers is None else readers.open(content)()
    if row.last_seen_at is None:
        return session
    return session.model_copy(update={"last_seen_at": row.last_seen_at})


def _readers_of(codec: SessionCodec[Identity], clock: Clock) -> Readers[Identity]:
    def reader(encoded: bytes) -> tuple[SessionReader[Identity], int]:
        return SessionReader(codec, encoded), 2 * len(encoded)

    return DecryptionCache(reader, clock=clock)


def _require_room(entries: TTLCache[Entry, Any], key: Entry, limit: int, code: Code) -> None:
    if len(entries) < limit or entries.expires_at(key):
        return
    entries.remove_expired(REMOVALS_WHEN_FULL)
    if len(entries) >= limit:
        raise SessionError(code, f"the memory store holds {limit} entries and takes no more")
