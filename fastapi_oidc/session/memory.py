"""Stores and lock in this process's memory: for development, tests and single-process services."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.model import Identity, OIDCSession, RevocationRecord
from fastapi_oidc.session.runs import SharedRuns
from fastapi_oidc.session.stores import revocation_key, revocation_keys

REMEMBERED_SECONDS = 60
_SWEEP_SECONDS = 60

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(slots=True)
class Expiring(Generic[Key, Value]):
    """A dictionary whose entries end at a given second; swept about once a minute."""

    clock: Clock
    _entries: dict[Key, tuple[int, Value]] = field(default_factory=dict)
    _next_sweep: int = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """The value, unless it has ended."""
        ends, value = self._entries.get(key, (0, None))
        return value if self.clock.now() < ends else None

    def ends(self, key: Key) -> int:
        """The second in which the entry ends; 0 when there is none."""
        return self._entries.get(key, (0, None))[0]

    def set(self, key: Key, value: Value, *, ends: int) -> None:
        """Keeps `value` until the second `ends`."""
        if self.clock.now() >= self._next_sweep:
            self.sweep()
        self._entries[key] = (ends, value)

    def delete(self, key: Key) -> None:
        """Forgets the entry."""
        self._entries.pop(key, None)

    def sweep(self) -> None:
        """Drops every entry that has ended."""
        now = self.clock.now()
        self._entries = {key: entry for key, entry in self._entries.items() if now < entry[0]}
        self._next_sweep = now + _SWEEP_SECONDS


class MemorySessionStore(Generic[Identity]):
    """Sessions in memory, `max_sessions` at most; raises SessionError (session.store_unavailable)
    when full."""

    def __init__(self, *, clock: Clock | None = None, max_sessions: int = 100_000) -> None:
        self._sessions: Expiring[str, OIDCSession[Identity]] = Expiring(clock or Clock())
        self._max_sessions = max_sessions

    async def get(self, id: str, /) -> OIDCSession[Identity] | None:
        """A copy of the session that nobody else holds; None when unknown or over."""
        session = self._sessions.get(id)
        return session.model_copy(deep=True) if session is not None else None

    async def set(self, id: str, session: OIDCSession[Identity], /) -> None:
        """Keeps a copy of `session` until its `expires_at`."""
        _require_room(self._sessions, id, self._max_sessions, Code.SESSION_STORE_UNAVAILABLE)
        self._sessions.set(id, session.model_copy(deep=True), ends=session.expires_at)

    async def delete(self, id: str, /) -> None:
        """Forgets `id`."""
        self._sessions.delete(id)


class MemoryRevocationStore:
    """Revocations in memory, `max_records` at most; raises SessionError
    (session.revocation_unavailable) when full, rather than forget a logout."""

    def __init__(self, *, clock: Clock | None = None, max_records: int = 100_000) -> None:
        self._issued_at: Expiring[tuple[str, ...], int] = Expiring(clock or Clock())
        self._max_records = max_records

    async def revoke(self, record: RevocationRecord, /) -> None:
        """Keeps the latest `issued_at` and `expires_at` of what `record` names."""
        key = revocation_key(record)
        _require_room(self._issued_at, key, self._max_records, Code.SESSION_REVOCATION_UNAVAILABLE)
        self._issued_at.set(
            key,
            max(record.issued_at, self._issued_at.get(key) or 0),
            ends=max(record.expires_at, self._issued_at.ends(key)),
        )

    async def is_revoked(self, session: OIDCSession[Identity], /) -> bool:
        """Whether `session` was authenticated at or before a logout that names it."""
        moments = [self._issued_at.get(key) for key in revocation_keys(session)]
        return any(moment is not None and session.authenticated_at <= moment for moment in moments)


class MemoryRefreshLock:
    """One run per session within this process; its result is remembered for a minute."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._results: Expiring[str, bytes] = Expiring(self._clock)
        self._runs = SharedRuns()

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], /
    ) -> bytes:
        """The result of the one run; see `RefreshLock`."""

        async def remembered_or_run() -> bytes:
            result = self._results.get(session_id)
            if result is None:
                result = await operation()
                ends = self._clock.now() + REMEMBERED_SECONDS
                self._results.set(session_id, result, ends=ends)
            return result

        return await self._runs.run(session_id, remembered_or_run)


def _require_room(entries: Expiring[Key, Value], key: Key, limit: int, code: Code) -> None:
    if len(entries) >= limit and not entries.ends(key):
        entries.sweep()
        if len(entries) >= limit:
            raise SessionError(code, f"the memory store holds {limit} entries and takes no more")
