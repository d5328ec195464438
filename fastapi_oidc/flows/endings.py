"""The ends of sessions that one process knows, written until the store has them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from fastapi_oidc.clock import Clock, TTLCache
from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.events import Announcer, EventName
from fastapi_oidc.session import rows
from fastapi_oidc.session.cells import MARGIN, Cells
from fastapi_oidc.session.model import EndReason
from fastapi_oidc.session.rows import Row, row_key

MOST_ANNOUNCED: Final = 20_000
"""Maximum number of ended sessions whose end one process announces only once."""


@dataclass(slots=True)
class Ending:
    """The end of a session, to be written. `expires_at` is the session's absolute end.

    `before` is the row that has ended, as far as it is known when the end was `tried`.
    """

    id: str
    reason: EndReason
    expires_at: int
    keeps_grant: bool = False
    before: Row = field(default_factory=Row)
    tried: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, row: Row, _: float) -> Row:
        """The row after its end."""
        if not row.ended:  # else by this write, whose reply was lost
            self.before = row
        return rows.end(row, self.reason, expires_at=self.expires_at, keeps_grant=self.keeps_grant)


class Endings:
    """The ends of sessions that this process knows, and that the store may not have yet.

    All registrations of an instance share them, so that a registration can be forgotten at any
    time. `are_recorded`: the application has configured a store, so the provider may end sessions.
    """

    def __init__(self, clock: Clock, *, are_recorded: bool) -> None:
        self._clock, self.are_recorded = clock, are_recorded
        self.here: dict[str, Row] = {}
        """The rows of sessions that this process has ended, which the store may not have yet."""
        self._announced: TTLCache[str, bool] = TTLCache(clock, max_entries=MOST_ANNOUNCED)

    def require(self) -> None:
        """Raise ConfigurationError (configuration.store_missing) without a store."""
        if not self.are_recorded:
            raise ConfigurationError(
                Code.CONFIGURATION_STORE_MISSING,
                "ending sessions from elsewhere needs a session_store, or for sessions in cookies "
                'a back_channel_logout_store: "memory", or a store that all processes share',
            )

    def end_here(self, id: str, reason: EndReason, *, keeps_grant: bool = False) -> None:
        """End the session in this process. `end` must follow."""
        self.here[id] = rows.end(self.here.get(id, Row()), reason, keeps_grant=keeps_grant)

    def is_first_to_find(self, id: str) -> bool:
        """Whether no request of this process has found the end of the session before."""
        is_first = id not in self._announced
        self._announced.set(id, True, expires_at=self._clock.now() + MARGIN)
        return is_first

    async def end(self, cells: Cells, announcer: Announcer, ending: Ending) -> Row:
        """See `Sessions.end`. Writes of the same end by several callers are one."""
        self.end_here(ending.id, ending.reason, keeps_grant=ending.keeps_grant)
        key, write = (ending.id, ending.reason), partial(self._write, cells, announcer, ending)
        return (await cells.last_steps.first_try(key, ending, write)).before

    async def _write(self, cells: Cells, announcer: Announcer, ending: Ending) -> None:
        id, ends = ending.id, ending.expires_at

        def announce_failure(error: SessionError) -> None:
            announcer.announce(EventName.SESSION_NOT_REMOVED, error, session_id=id)
            ending.tried.set()

        try:
            move = partial(cells.move, row_key(id), ending.end)
            await cells.insist(move, None, ends, announce_failure)
        except asyncio.CancelledError:
            announcer.announce(EventName.SESSION_REMOVAL_GIVEN_UP, session_id=id)
            raise
        self.here.pop(id, None)
        if ending.tried.is_set():
            announcer.announce(EventName.SESSION_REMOVED, session_id=id)
