"""Stores in this process's memory: for development, tests and single-process services."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Generic, TypeAlias, TypeVar

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.once import Expiring
from fastapi_oidc.session.codec import SessionCodec, SessionReader
from fastapi_oidc.session.endings import (
    Ending,
    Key,
    RevocationRecord,
    keys_of_record,
    keys_of_session,
    reason_of,
)
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.opener import Opener
from fastapi_oidc.session.sealing import Sealer
from fastapi_oidc.session.stores import RevocationStore

_STEPS_WHEN_FULL: Final = 1000
"""An entry that has ended is one step, and so is a second whose entries are all gone."""
_CHECKED_PER_LOGIN: Final = 4
"""How many of a user's oldest sessions a login looks at; those that are gone leave the list."""

Entry = TypeVar("Entry", bound=Hashable)
Readers: TypeAlias = Opener[bytes, SessionReader[Identity]]


class MemoryRevocationStore:
    """Endings in memory, `max_records` at most; raises SessionError
    (session.revocation_unavailable) when full, rather than forget a logout."""

    def __init__(self, *, clock: Clock | None = None, max_records: int = 100_000) -> None:
        self._endings: Expiring[Key, Ending] = Expiring(clock or Clock())
        self._max_records = max_records
        self.has_records = False
        """Whether there ever was one; a plain attribute, since every request looks at it."""

    async def revoke(self, record: RevocationRecord, /) -> None:
        """Keeps the latest `issued_at` and `expires_at` of what `record` names."""
        code, ending = Code.SESSION_REVOCATION_UNAVAILABLE, Ending.of(record)
        self.has_records = True
        for key in keys_of_record(record):
            _require_room(self._endings, key, self._max_records, code)
            ends = max(record.expires_at, self._endings.ends(key))
            self._endings.set(key, ending.joined(self._endings.get(key)), ends=ends)

    async def is_revoked(self, session: OIDCSession[Identity], /) -> bool:
        """Whether a record covers `session`."""
        return await self.ended_by(session) is not None

    async def ended_by(self, session: OIDCSession[Identity], /) -> EndReason | None:
        """The reason of a record that covers `session`."""
        return self.reason(session)

    def reason(self, session: OIDCSession[Identity]) -> EndReason | None:
        """As `ended_by`, for what needs no event loop."""
        if not self.has_records:
            return None
        return reason_of(session, [self._endings.get(key) for key in keys_of_session(session)])


@dataclass(slots=True)
class _Row(Generic[Identity]):
    """A session as it is kept: encoded, for `readers`, or without them a copy of its own."""

    content: Any
    readers: Readers[Identity] | None
    user: tuple[str, str, str]
    last_seen_at: int | None = None


class MemorySessionStore(Generic[Identity]):
    """Sessions and their endings in memory; has every ability of a session store.

    Takes `max_sessions` at most, and as many endings; raises SessionError
    (session.store_unavailable) when full. Rows are encoded sessions once the store is given to an
    `OIDC` object or an `identity_type`, and deep copies before.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        max_sessions: int = 100_000,
        identity_type: type[Identity] | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self._rows: Expiring[str, _Row[Identity]] = Expiring(self._clock)
        self._users: Expiring[tuple[str, str, str], dict[str, None]] = Expiring(self._clock)
        self._endings = MemoryRevocationStore(clock=self._clock, max_records=max_sessions)
        self._max_sessions = max_sessions
        self._codec: SessionCodec[Identity] | None = None
        self._readers: Readers[Identity] | None = None
        self._is_shared = False
        if identity_type is not None:
            self._write_with(SessionCodec(identity_type))

    def bind(self, codec: SessionCodec[Identity], sealer: Sealer, /) -> None:
        """Rows are written with `codec`; with copies if `OIDC` objects differ in it."""
        if self._codec is not None and self._codec.identity_type != codec.identity_type:
            self._is_shared = True
        self._write_with(None if self._is_shared else codec)

    async def get(self, id: str, /) -> OIDCSession[Identity] | None:
        """The session, which nobody else holds; None when unknown or over."""
        return self._session(id)

    async def set(self, id: str, session: OIDCSession[Identity], /) -> None:
        """Keeps `session` until its `expires_at`."""
        _require_room(self._rows, id, self._max_sessions, Code.SESSION_STORE_UNAVAILABLE)
        user = (session.issuer, session.client_id, session.sub)
        self._rows.set(id, self._row(session, user), ends=session.expires_at)
        ids = self._users.get(user) or {}
        for oldest in list(islice(ids, _CHECKED_PER_LOGIN)):
            if oldest not in self._rows:
                del ids[oldest]
        ids[id] = None
        self._users.set(user, ids, ends=max(session.expires_at, self._users.ends(user)))

    async def delete(self, id: str, /) -> None:
        """Forgets `id`."""
        row = self._rows.pop(id)
        if row is not None:
            self._users.get(row.user, {}).pop(id, None)

    async def replace(self, id: str, session: OIDCSession[Identity], /) -> bool:
        """Keeps `session` in place of what is there; False when nothing is."""
        before = self._rows.get(id)
        if before is None:
            return False
        await self.set(id, session)
        after = self._rows.get(id)
        if after is not None and before.last_seen_at is not None:
            after.last_seen_at = max(before.last_seen_at, session.last_seen_at or 0)
        return True

    async def touch(self, id: str, at: int, /) -> None:
        """Keeps beside the row when the session was last seen."""
        row = self._rows.get(id)
        if row is not None:
            row.last_seen_at = max(at, row.last_seen_at or 0)

    async def sessions_of(
        self, issuer: str, client_id: str, sub: str, /
    ) -> Sequence[OIDCSession[Identity]]:
        """The user's sessions, oldest first."""
        ids = self._users.get((issuer, client_id, sub), {})
        sessions = [session for id in ids if (session := await self.get(id)) is not None]
        return sorted(sessions, key=lambda session: session.created_at)

    async def get_with_endings(
        self, id: str, digests: Sequence[str], /
    ) -> tuple[OIDCSession[Identity] | None, EndReason | None]:
        """The session and the reason of a record that covers it."""
        session = self._session(id)
        if session is None or not self._endings.has_records:
            return session, None
        return session, self._endings.reason(session)

    def keeps_endings_of(self, store: RevocationStore, /) -> bool:
        """Whether `store` is this one."""
        return store is self

    async def revoke(self, record: RevocationRecord, /) -> None:
        """As `MemoryRevocationStore.revoke`."""
        await self._endings.revoke(record)

    async def is_revoked(self, session: OIDCSession[Any], /) -> bool:
        """Whether a record covers `session`."""
        return await self._endings.is_revoked(session)

    async def ended_by(self, session: OIDCSession[Any], /) -> EndReason | None:
        """The reason of a record that covers `session`."""
        return await self._endings.ended_by(session)

    def _session(self, id: str) -> OIDCSession[Identity] | None:
        row = self._rows.get(id)
        if row is None:
            return None
        readers, content = row.readers, row.content
        session: OIDCSession[Identity]
        session = _copied(content) if readers is None else readers.open(content)()
        if row.last_seen_at is None:
            return session
        return session.model_copy(update={"last_seen_at": row.last_seen_at})

    def _write_with(self, codec: SessionCodec[Identity] | None) -> None:
        self._codec = codec
        self._readers = None if codec is None else _readers_of(codec, self._clock)

    def _row(self, session: OIDCSession[Identity], user: tuple[str, str, str]) -> _Row[Identity]:
        content = _copied(session) if self._codec is None else self._codec.encode(session)
        return _Row(content, self._readers, user)


def _readers_of(codec: SessionCodec[Identity], clock: Clock) -> Readers[Identity]:
    def reader(encoded: bytes) -> tuple[SessionReader[Identity], int]:
        return SessionReader(codec, encoded), 2 * len(encoded)

    return Opener(reader, clock=clock)


def _copied(session: OIDCSession[Identity]) -> OIDCSession[Identity]:
    return session.model_copy(deep=True)


def _require_room(entries: Expiring[Entry, Any], key: Entry, limit: int, code: Code) -> None:
    """An entry that has ended makes room; the search for one is bounded: no call takes long."""
    if len(entries) < limit or entries.ends(key):
        return
    if not entries.make_room(limit, steps=_STEPS_WHEN_FULL):
        raise SessionError(code, f"the memory store holds {limit} entries and takes no more")
