"""The refresh record: one for each session, over every process that refreshes it.

    IDLE(n) --take--> SENT(n) --answered--> ANSWERED(n) --done--> IDLE(n + 1)

`take` makes one process the owner for some seconds, and only that owner can `advance` that
generation. `docs/decisions/017-one-record-for-each-session.md` has every transition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import get_args

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.model import EndReason
from fastapi_oidc.session.outage import unavailable_as
from fastapi_oidc.session.sealing import Sealer
from fastapi_oidc.ttl_cache import TTLCache


class Phase(StrEnum):
    """The state of the refresh of one generation."""

    IDLE = "idle"
    """No refresh is under way."""
    SENT = "sent"
    """The owner presents the refresh token, or is about to."""
    ANSWERED = "answered"
    """The token endpoint has responded; `data` is its response."""
    ENDED = "ended"
    """The session has ended; `data` is the reason."""


@dataclass(frozen=True, slots=True)
class RefreshRecord:
    """What every process knows of one session's refresh.

    `owner` may advance the record; others may take it after `held_until`, a time by the clock of
    the store. For sessions in cookies, `session` is the session that a refresh brought to this
    `generation`, else empty. `last_seen_at` is when it was last used, in seconds since the epoch.
    `session` and `data` are sealed.
    """

    generation: int = -1
    phase: Phase = Phase.IDLE
    owner: str = ""
    held_until: float = 0.0
    data: bytes = field(default=b"", repr=False)
    session: bytes = field(default=b"", repr=False)
    last_seen_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """A request to own the record of `generation` for `hold` seconds.

    A record with a response is owned for `answered_hold` seconds, which must not exceed `hold`:
    another process can make the session from the same response.
    """

    generation: int
    owner: str
    hold: float
    answered_hold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """Move the record to `phase` and `to_generation`, if `owner` owns it at `generation`.

    Without an `owner` any record moves. Without a `phase` only `last_seen_at` changes, to a later
    time.
    """

    phase: Phase | None = None
    owner: str = ""
    generation: int = -1
    to_generation: int = -1
    data: bytes = field(default=b"", repr=False)
    session: bytes = field(default=b"", repr=False)
    hold: float = 0.0
    last_seen_at: int = 0


def taken(record: RefreshRecord, take: Take, now: float) -> RefreshRecord:
    """The record after `take`: held by its owner, or still by another one."""
    if record.phase is Phase.ENDED or record.generation > take.generation:
        return record
    if record.generation < take.generation:
        record = RefreshRecord(take.generation, last_seen_at=record.last_seen_at)
    # A moment farther off than any hold is from before the clock was set back. A process with
    # another `provider_timeout` may have taken it for up to twice as long.
    held_until = min(record.held_until, now + 2 * take.hold)
    if record.phase is not Phase.IDLE and held_until > now and record.owner != take.owner:
        return replace(record, held_until=held_until)
    if record.phase is Phase.ANSWERED:
        return replace(record, owner=take.owner, held_until=now + take.answered_hold)
    return replace(record, phase=Phase.SENT, owner=take.owner, held_until=now + take.hold)


def advanced(record: RefreshRecord, change: Advance, now: float) -> RefreshRecord | None:
    """The record after `change`; None if the owner does not own that generation."""
    last_seen_at = max(record.last_seen_at, change.last_seen_at)
    if change.phase is None:
        return replace(record, last_seen_at=last_seen_at)
    if change.owner and not _is_owned(record, change):
        return None
    is_next = change.to_generation > record.generation
    return RefreshRecord(
        generation=max(change.to_generation, record.generation),
        phase=change.phase,
        owner=change.owner,
        held_until=now + change.hold,
        data=change.data,
        session=change.session if is_next else record.session,
        last_seen_at=last_seen_at,
    )


def _is_owned(record: RefreshRecord, change: Advance) -> bool:
    """Whether the owner may make this change, or has made it and repeats it after a lost reply."""
    if record.owner != change.owner or record.phase is Phase.ENDED:
        return False
    if record.phase is Phase.IDLE:
        return (change.phase, change.to_generation) == (Phase.IDLE, record.generation)
    return record.generation == change.generation


def end_reason_in(record: RefreshRecord) -> EndReason | None:
    """Why the session of the decrypted `record` has ended; None if it has not."""
    if record.phase is not Phase.ENDED:
        return None
    written = record.data.decode(errors="replace")
    return next((reason for reason in get_args(EndReason) if reason == written), "revoked")


class RefreshRecords(ABC):
    """Stores the refresh records of an application; processes that share it refresh once.

    Every method changes or reads one record atomically. `lifetime` is the number of seconds for
    which the record is stored from now on.
    """

    @abstractmethod
    async def take(self, id: str, take: Take, *, lifetime: int) -> RefreshRecord:
        """The record `id` after `take` (`taken`)."""

    @abstractmethod
    async def advance(self, id: str, change: Advance, *, lifetime: int) -> bool:
        """Whether the record `id` was changed (`advanced`)."""

    @abstractmethod
    async def look(self, id: str) -> RefreshRecord:
        """The record `id`; of generation -1 if there is none."""

    async def aclose(self) -> None:  # noqa: B027 - a default
        """Close the store's own connections. A later call may open new ones."""


class MemoryRefreshLock(RefreshRecords):
    """Refresh records in the memory of one process, `max_records` at most.

    Beyond that the record that expires first is dropped.
    """

    def __init__(self, *, clock: Clock | None = None, max_records: int = 100_000) -> None:
        self._clock = clock or Clock()
        self._records: TTLCache[str, RefreshRecord] = TTLCache(self._clock, max_entries=max_records)

    async def take(self, id: str, take: Take, *, lifetime: int) -> RefreshRecord:
        """See `RefreshRecords.take`."""
        record = taken(await self.look(id), take, self._clock.read())
        self._keep(id, record, lifetime)
        return record

    async def advance(self, id: str, change: Advance, *, lifetime: int) -> bool:
        """See `RefreshRecords.advance`."""
        record = advanced(await self.look(id), change, self._clock.read())
        if record is not None:
            self._keep(id, record, lifetime)
        return record is not None

    async def look(self, id: str) -> RefreshRecord:
        """See `RefreshRecords.look`."""
        return self._records.get(id) or RefreshRecord()

    def _keep(self, id: str, record: RefreshRecord, lifetime: int) -> None:
        expires_at = max(self._records.expires_at(id), self._clock.now() + lifetime)
        self._records.set(id, record, expires_at=expires_at)


class SealedRecords:
    """Refresh records whose data is sealed and bound to its session.

    Raises SessionError (session.lock_unavailable) when the records are unavailable, and for data
    that another secret sealed.
    """

    def __init__(self, records: RefreshRecords, sealer: Sealer) -> None:
        self._records, self._sealer = records, sealer

    async def take(self, id: str, take: Take, *, lifetime: int) -> RefreshRecord:
        """As `RefreshRecords.take`, with decrypted `data` and `session`."""
        return await self._opened(id, lambda: self._records.take(id, take, lifetime=lifetime))

    async def advance(self, id: str, change: Advance, *, lifetime: int) -> bool:
        """As `RefreshRecords.advance`, with decrypted `data` and `session`."""
        data = self._seal(f"{id}:data", change.data)
        session = self._seal(f"{id}:session", change.session)
        change = replace(change, data=data, session=session)
        with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
            return await self._records.advance(id, change, lifetime=lifetime)

    async def look(self, id: str) -> RefreshRecord:
        """As `RefreshRecords.look`, with decrypted `data` and `session`."""
        return await self._opened(id, lambda: self._records.look(id))

    async def aclose(self) -> None:
        """Close the connections of the records."""
        await self._records.aclose()

    async def _opened(self, id: str, read: Callable[[], Awaitable[RefreshRecord]]) -> RefreshRecord:
        with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
            record = await read()
        return replace(
            record,
            data=self._open(f"{id}:data", record.data),
            session=self._open(f"{id}:session", record.session),
        )

    def _seal(self, name: str, content: bytes) -> bytes:
        return self._sealer.encrypt(content, name=f"record:{name}") if content else b""

    def _open(self, name: str, sealed: bytes) -> bytes:
        try:
            return self._sealer.decrypt(sealed, name=f"record:{name}") if sealed else b""
        except SessionError:
            explanation = "another secret sealed the refresh record"
            raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation) from None
