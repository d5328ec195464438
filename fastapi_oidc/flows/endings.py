"""The ends of sessions that one process knows, written until the store has them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from fastapi_oidc.clock import Clock, TTLCache
from fastapi_oidc.errors import SessionError
from fastapi_oidc.events import Announcer, EventName
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
class Ending:
    """The end of a session, to be written. `expires_at` is the session's absolute end.

    `before` is the row that has ended, as far as it is known. `first` has it when the end was tried
    once; if the store had not taken the end then, `if_late` gets the row that is known later.
    """

    id: str
    reason: EndReason
    expires_at: int
    keeps_grant: bool = False
    if_late: IfLate | None = None
    before: Row = field(default_factory=Row)
    first: asyncio.Future[Row] = field(init=False)

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
        self._writing: dict[tuple[str, EndReason], Ending] = {}

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

    async def end(self, cells: Cells, announcer: Announcer, ending: Ending) -> Row:
        """See `Sessions.end`. Writes of the same end by several callers are one."""
        self.end_here(ending.id, ending.reason, keeps_grant=ending.keeps_grant)
        loop, key = asyncio.get_running_loop(), (ending.id, ending.reason)
        writing = self._writing.get(key)
        if writing is None or writing.first.get_loop() is not loop:
            writing = self._writing[key] = ending
            ending.first = loop.create_future()
            task = loop.create_task(self._write(cells, announcer, ending))
            self.writes.add(task)
            task.add_done_callback(self.writes.discard)
        return await asyncio.shield(writing.first)

    async def _write(self, cells: Cells, announcer: Announcer, ending: Ending) -> None:
        id, first = ending.id, ending.first

        def announce_failure(error: SessionError) -> None:
            announcer.announce_error(EventName.SESSION_NOT_REMOVED, error, session_id=id)
            first.set_result(ending.before)

        try:
            seen = await cells.insist(
                row_key(id), ending.end, until=ending.expires_at, on_failure=announce_failure
            )
        except asyncio.CancelledError:
            announcer.announce(EventName.SESSION_REMOVAL_GIVEN_UP, session_id=id)
            raise
        finally:
            was_late = first.done()
            if not was_late:
                first.set_result(ending.before)
            if self._writing.get((id, ending.reason)) is ending:
                del self._writing[id, ending.reason]
        self.here.pop(id, None)
        if was_late and seen is not None:
            announcer.announce(EventName.SESSION_REMOVED, session_id=id)
            if ending.if_late is not None:
                await ending.if_late(ending.before)

    async def aclose(self) -> None:
        """Repeat the failed writes of this event loop for some seconds."""
        loop = asyncio.get_running_loop()
        tasks = {task for task in self.writes if task.get_loop() is loop}
        if tasks:
            await asyncio.wait(tasks, timeout=SHUTDOWN_SECONDS)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
