"""Writes the ends of sessions into their store: now, or as soon as it answers again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Final, Generic, NamedTuple

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import SessionError
from fastapi_oidc.flows.events import Announcer, Event, EventName, refused
from fastapi_oidc.once import Flights, cancelled
from fastapi_oidc.session.endings import ending_of
from fastapi_oidc.session.keeper import Keeper
from fastapi_oidc.session.model import EndReason, Identity, PreviousSession

LIMIT: Final = 10_000
"""Endings that one process keeps at the most; beyond it the oldest is given up."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 5.0
"""Seconds between two attempts while the store is down; doubled each time."""

LAST_ATTEMPTS, LAST_PAUSE = 5.0, 0.5
"""Seconds that a process which ends tries to write what is left, and between two attempts."""


class _Owed(NamedTuple):
    previous: PreviousSession
    reason: EndReason


class EndingWriter(Generic[Identity]):
    """Whoever ends a session has it over in this process before (`Register.end`).

    An attempt belongs to no request: one that is cancelled stops waiting, and the attempt goes on
    to its end. An ending that a store cannot take is kept here until the session would be over
    anyhow, and is written with one of the attempts that follow: after a pause, or when a request
    has found that the store answers (`wake`). A process that dies before has written nothing.
    """

    def __init__(self, keeper: Keeper[Identity], clock: Clock, announcer: Announcer) -> None:
        self._keeper, self._clock, self._announcer = keeper, clock, announcer
        self._attempts: Flights[object, None] = Flights()
        self._owed: dict[str, _Owed] = {}
        self._writing: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._is_closing = False

    def __len__(self) -> int:
        """How many endings the store has not taken."""
        return len(self._owed)

    async def end(self, previous: PreviousSession, reason: EndReason) -> None:
        """The session is kept no longer, and its end recorded; later if the store is down."""
        await self._attempted(
            _Owed(previous, reason), lambda: self._keeper.end_previous(previous, reason)
        )

    async def record(self, previous: PreviousSession, reason: EndReason) -> None:
        """As `end`, without removing the session from its store; of no effect where the end of a
        single session cannot be recorded."""
        if not self._keeper.keeps_endings:
            return
        record = ending_of(previous, reason, self._clock.now())
        await self._attempted(_Owed(previous, reason), lambda: self._keeper.revoke(record))

    async def _attempted(self, owed: _Owed, write: Callable[[], Awaitable[None]]) -> None:
        async def attempt() -> None:
            try:
                await write()
            except SessionError as error:
                self.postpone(*owed, error)

        await self._attempts.run(object(), attempt)

    def postpone(self, previous: PreviousSession, reason: EndReason, error: SessionError) -> None:
        """The session is to be ended as soon as the store answers; announced with `error`."""
        event = refused(EventName.SESSION_NOT_REMOVED, error, self._clock.now())
        self._announcer(replace(event, session_id=previous.id))
        self._owed.setdefault(previous.id, _Owed(previous, reason))
        if len(self._owed) > LIMIT:
            oldest = next(iter(self._owed))
            del self._owed[oldest]
            self._announce_given_up(oldest, f"{LIMIT} others are to be told to the store")
        self._begin()

    def wake(self) -> None:
        """The store has answered somebody: what is left is written now."""
        if self._owed:
            self._begin()
            self._woken.set()

    async def aclose(self) -> None:
        """The last attempts, for a few seconds at the most."""
        ends = monotonic() + LAST_ATTEMPTS
        await self._attempts.ended(LAST_ATTEMPTS)
        if not self._owed:
            return
        self._is_closing = True
        self.wake()
        try:
            await self._ended(max(LAST_PAUSE, ends - monotonic()))
        finally:
            self._is_closing = False
            for id, owed in list(self._owed.items()):
                if self._clock.now() < owed.previous.expires_at:
                    self._announce_given_up(id, "the process ended before the store answered")

    def _announce_given_up(self, session_id: str, because: str) -> None:
        now = self._clock.now()
        event = Event(EventName.SESSION_REMOVAL_GIVEN_UP, now, explanation=because)
        self._announcer(replace(event, session_id=session_id))

    async def _ended(self, seconds: float) -> None:
        if self._writing is None:
            return
        await asyncio.wait([self._writing], timeout=seconds)
        await cancelled(self._writing)
        with suppress(asyncio.CancelledError):
            await self._writing

    def _begin(self) -> None:
        task = self._writing
        # A task of another event loop (an earlier test, the parent of a fork) never ends here.
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._woken = asyncio.Event()
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        pause = FIRST_PAUSE
        while self._owed:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_PAUSE if self._is_closing else pause):
                    await self._woken.wait()
            self._woken.clear()
            await self._written()
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _written(self) -> None:
        """Until the store takes no more; one that it does not take goes to the end."""
        while self._owed:
            id, owed = next(iter(self._owed.items()))
            is_over = self._clock.now() >= owed.previous.expires_at
            try:
                if not is_over:
                    await self._keeper.end_previous(*owed)
            except SessionError:
                if self._owed.pop(id, None):  # else it was given up meanwhile
                    self._owed[id] = owed
                return
            self._owed.pop(id, None)
            if not is_over:
                now = self._clock.now()
                self._announcer(Event(EventName.SESSION_REMOVED, now, session_id=id))
