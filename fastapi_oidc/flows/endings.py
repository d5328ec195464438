"""The ends of sessions that one process knows, written until the store has them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from fastapi_oidc.clock import Clock, TTLCache
from fastapi_oidc.errors import SessionError
from fastapi_oidc.events import Announcer, Event, EventName, refusal
from fastapi_oidc.session import rows
from fastapi_oidc.session.cells import MARGIN, Cells
from fastapi_oidc.session.model import EndReason
from fastapi_oidc.session.rows import Row, row_key

MOST_ANNOUNCED: Final = 20_000
"""Maximum number of ended sessions whose end one process announces only once."""

SHUTDOWN_SECONDS: Final = 5.0
"""Seconds for which a process repeats failed writes at shutdown."""


IfLate: TypeAlias = Callable[[Row], Awaitable[None]]


class Ended(NamedTuple):
    """Why a session has ended, and `keeps_grant` of its row."""

    reason: EndReason
    keeps_grant: bool = False


@dataclass(slots=True)
class _Writing:
    """An end that is being written. `first` has the row before it when that was tried once.

    If it was not written then, `if_late` gets that row.
    """

    id: str
    reason: EndReason
    expires_at: int
    keeps_grant: bool
    first: asyncio.Future[Row]
    if_late: IfLate | None
    before: Row = field(default_factory=Row)

    def end(self, row: Row, _: float) -> Row:
        """The row after its end."""
        if not row.ended:  # else by this write, whose reply was lost
            self.before = row
        return rows.end(row, self.reason, expires_at=self.expires_at, keeps_grant=self.keeps_grant)


class Endings:
    """The ends of sessions that this process knows, and that the store may not have yet.

    All registrations of an instance share them, so that a registration can be forgotten at any
    time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.here: dict[str, Ended] = {}
        """The sessions that this process has ended, and of which the store may not know it."""
        self._announced: TTLCache[str, bool] = TTLCache(clock, max_entries=MOST_ANNOUNCED)
        self.writes: set[asyncio.Task[None]] = set()
        self._writing: dict[tuple[str, EndReason], _Writing] = {}

    def end_here(self, id: str, reason: EndReason, *, keeps_grant: bool = False) -> None:
        """End the session in this process, by the rule of `rows.end`. `end` must follow."""
        known = self.here.get(id)
        if known is None or (reason == "signed_out" != known.reason):
            self.here[id] = Ended(reason, keeps_grant)

    def is_first_to_find(self, id: str) -> bool:
        """Whether no request of this process has found the end of the session before."""
        is_first = id not in self._announced
        self._announced.set(id, True, expires_at=self._clock.now() + MARGIN)
        return is_first

    async def end(
        self,
        cells: Cells,
        announcer: Announcer,
        id: str,
        reason: EndReason,
        *,
        expires_at: int,
        keeps_grant: bool,
        if_late: IfLate | None,
    ) -> Row:
        """See `Sessions.end`."""
        self.end_here(id, reason, keeps_grant=keeps_grant)
        loop = asyncio.get_running_loop()
        writing = self._writing.get((id, reason))
        if writing is None or writing.first.get_loop() is not loop:
            first = loop.create_future()
            writing = _Writing(id, reason, expires_at, keeps_grant, first, if_late)
            self._writing[id, reason] = writing
            task = loop.create_task(self._write(cells, announcer, writing))
            self.writes.add(task)
            task.add_done_callback(self.writes.discard)
        return await asyncio.shield(writing.first)

    async def _write(self, cells: Cells, announcer: Announcer, writing: _Writing) -> None:
        id, first = writing.id, writing.first

        def announce_failure(error: SessionError) -> None:
            event = refusal(EventName.SESSION_NOT_REMOVED, error, self._clock.now())
            announcer(replace(event, session_id=id))
            first.set_result(writing.before)

        def announce(name: EventName) -> None:
            announcer(Event(name, self._clock.now(), session_id=id))

        try:
            seen = await cells.insist(
                row_key(id), writing.end, until=writing.expires_at, on_failure=announce_failure
            )
        except asyncio.CancelledError:
            announce(EventName.SESSION_REMOVAL_GIVEN_UP)
            raise
        finally:
            was_late = first.done()
            if not was_late:
                first.set_result(writing.before)
            if self._writing.get((id, writing.reason)) is writing:
                del self._writing[id, writing.reason]
        self.here.pop(id, None)
        if was_late and seen is not None:
            announce(EventName.SESSION_REMOVED)
            if writing.if_late is not None:
                await writing.if_late(writing.before)

    async def aclose(self) -> None:
        """Repeat the failed writes for some seconds."""
        tasks = set(self.writes)
        if tasks:
            await asyncio.wait(tasks, timeout=SHUTDOWN_SECONDS)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
