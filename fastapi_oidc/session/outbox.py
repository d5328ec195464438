"""Failed writes to stores, repeated until they succeed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Final, NamedTuple

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import OIDCError
from fastapi_oidc.events import Announcer, Event, EventName, refusal

OUTBOX_LIMIT: Final = 10_000
"""Maximum number of writes that wait in one process; beyond it, the oldest is dropped."""

PAUSE: Final = 1.0
"""Seconds between two attempts while a store is down. When it responds again, each second counts:
another process may take a record whose response waits here.
"""

SHUTDOWN_SECONDS, SHUTDOWN_PAUSE = 5.0, 0.5
"""Seconds for which a process tries the remaining writes at shutdown, and between attempts."""

Write = Callable[[], Awaitable[object]]


class _Owed(NamedTuple):
    write: Write
    expires_at: int
    session_id: str
    ends_session: bool


class Outbox:
    """Writes to stores that do not depend on their request.

    If a request is cancelled, its write continues. A failed write is repeated until its session
    would have expired: after a pause, or when a request finds that the store responds (`wake`). The
    waiting writes are in memory and lost if the process dies.
    """

    def __init__(self, clock: Clock, announcer: Announcer) -> None:
        self._clock, self._announcer = clock, announcer
        self._attempts: SingleFlight[object, None] = SingleFlight()
        self._owed: dict[Hashable, _Owed] = {}
        self._writer: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._is_closing = False

    def __len__(self) -> int:
        """The number of waiting writes."""
        return len(self._owed)

    async def write(
        self, key: Hashable, write: Write, *, session_id: str, expires_at: int, ends: bool = False
    ) -> None:
        """Await `write()`. If it raises OIDCError, the write waits and is repeated.

        A later write with the same `key` replaces a waiting one. `ends`: the write ends the
        session, which is announced if it is late.
        """
        owed = _Owed(write, expires_at, session_id, ends)

        async def attempt() -> None:
            before = self._owed.get(key)
            try:
                await write()
                if self._owed.get(key) is before:  # else a later write waits by now
                    self._owed.pop(key, None)
            except OIDCError as error:
                self.owe(key, owed, error)

        await self._attempts.run(object(), attempt)

    def postpone(
        self, key: Hashable, write: Write, error: OIDCError, *, session_id: str, expires_at: int
    ) -> None:
        """Repeat a `write` that ends a session; its store has just raised `error`."""
        self.owe(key, _Owed(write, expires_at, session_id, ends_session=True), error)

    def owe(self, key: Hashable, owed: _Owed, error: OIDCError) -> None:
        """Repeat the write until it succeeds."""
        if owed.ends_session:
            event = refusal(EventName.SESSION_NOT_REMOVED, error, self._clock.now())
            self._announcer(replace(event, session_id=owed.session_id))
        self._owed[key] = owed
        if len(self._owed) > OUTBOX_LIMIT:
            oldest = next(iter(self._owed))
            self._give_up(self._owed.pop(oldest), f"{OUTBOX_LIMIT} later writes are waiting")
        self._start()

    def wake(self) -> None:
        """Try the waiting writes now, because a store has responded."""
        if self._owed:
            self._start()
            self._woken.set()

    async def aclose(self) -> None:
        """Wait for the writes under way, and try the waiting ones for a few more seconds."""
        ends = monotonic() + SHUTDOWN_SECONDS
        await self._attempts.wait(SHUTDOWN_SECONDS)
        if not self._owed:
            return
        self._is_closing = True
        self.wake()
        try:
            if self._writer is not None:
                await asyncio.wait([self._writer], timeout=max(SHUTDOWN_PAUSE, ends - monotonic()))
                self._writer.cancel()
                await asyncio.wait([self._writer], timeout=SHUTDOWN_PAUSE)
        finally:
            self._is_closing = False
            for owed in self._owed.values():
                if self._clock.now() < owed.expires_at:
                    self._give_up(owed, "the process ended before the store responded")

    def _give_up(self, owed: _Owed, because: str) -> None:
        if owed.ends_session:
            now = self._clock.now()
            event = Event(EventName.SESSION_REMOVAL_GIVEN_UP, now, explanation=because)
            self._announcer(replace(event, session_id=owed.session_id))

    def _start(self) -> None:
        task = self._writer
        # A task of another event loop (an earlier test, the parent of a fork) never finishes here.
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._woken = asyncio.Event()
            self._writer = asyncio.create_task(self._repeat())

    async def _repeat(self) -> None:
        while self._owed:
            with suppress(TimeoutError):
                async with asyncio.timeout(SHUTDOWN_PAUSE if self._is_closing else PAUSE):
                    await self._woken.wait()
            self._woken.clear()
            await self._write_owed()

    async def _write_owed(self) -> None:
        """Try each waiting write once; a failed one moves to the end of the queue."""
        for key, owed in list(self._owed.items()):
            is_over = self._clock.now() >= owed.expires_at
            try:
                if not is_over:
                    await owed.write()
            except OIDCError:
                if self._owed.get(key) is owed:
                    self._owed[key] = self._owed.pop(key)
                return
            if self._owed.get(key) is owed:  # else a later write has replaced it
                del self._owed[key]
            if owed.ends_session and not is_over:
                now = self._clock.now()
                event = Event(EventName.SESSION_REMOVED, now, session_id=owed.session_id)
                self._announcer(event)
