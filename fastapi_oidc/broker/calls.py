"""The calls of one access that are under way in this process: bounded, watched, cut and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from anyio import move_on_after

from fastapi_oidc.broker.access import Limits, Refused, Use
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, SessionError

POLL_SECONDS: Final = 1.0
"""Seconds between two looks at the access of a call that is under way: the longest time for which
a call goes on after another process has withdrawn the access or ended the session.
"""

UNSURE_SECONDS: Final = 5.0
"""Seconds for which a call goes on while the store does not say whether its access has ended."""

Cut: TypeAlias = Callable[[SessionError], None]
"""Ends a call under way, and says why."""


class OpenCalls:
    """Bounds the calls of one access, cuts them when it has ended, and counts what they cost.

    `judge` raises when the access has ended, and `record` stores what all calls have cost so far.
    Both are called every POLL_SECONDS: `judge` while a call is under way, `record` while a cost is
    not stored.
    """

    def __init__(
        self,
        limits: Limits,
        judge: Callable[[], Awaitable[object]],
        record: Callable[[Use], Awaitable[object]],
    ) -> None:
        self._limits, self._judge, self._record = limits, judge, record
        # Scopes, because httpcore closes connections in shields against them, not against tasks.
        self._open: set[Cut] = set()
        self._watch: SingleFlight[None, None] = SingleFlight()
        self._cost, self._recorded, self._recording = Use(), Use(), asyncio.Lock()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Cut]:
        """Bound a call; raises Refused (broker.busy, broker.timeout), or why it was cut."""
        if len(self._open) >= self._limits.concurrent:
            raise Refused(Code.BROKER_BUSY, f"{self._limits.concurrent} calls are under way")
        bound = move_on_after(self._limits.seconds)
        reason: SessionError = Refused(Code.BROKER_TIMEOUT, "the call took too long")

        def cut(because: SessionError) -> None:
            nonlocal reason
            reason = because
            bound.cancel()

        self._open.add(cut)
        self._watch.start(None, self._watch_calls)
        try:
            with bound:
                yield cut
        finally:
            self._open.remove(cut)
        if bound.cancelled_caught:
            raise reason

    def cut(self, because: SessionError) -> None:
        """End all calls under way."""
        for cut in self._open:
            cut(because)

    def require_more(self, use: Use) -> None:
        """Refuse a call over `Limits.calls`; `use` is what the store has of other applications."""
        if use.calls + self._cost.calls + len(self._open) > self._limits.calls:
            raise Refused(Code.BROKER_USED_UP, f"{self._limits.calls} calls")

    def count(self, cost: Use) -> None:
        """Record the cost of a call, soon."""
        self._cost = self._cost.and_of(cost)
        self._watch.start(None, self._watch_calls)

    async def record(self) -> None:
        """Record the costs now; raises SessionError."""
        async with self._recording:
            if (cost := self._cost) != self._recorded:
                await self._record(cost)
                self._recorded = cost

    async def _watch_calls(self) -> None:
        loop = asyncio.get_running_loop()
        sure_at = loop.time()
        while self._open or self._cost != self._recorded:
            await asyncio.sleep(POLL_SECONDS)
            began, doubt = loop.time(), await self._doubt()
            if doubt is None:
                sure_at = began
            elif not doubt.is_outage or loop.time() - sure_at >= UNSURE_SECONDS:
                self.cut(doubt)

    async def _doubt(self) -> SessionError | None:
        """Why the access has, or may have, ended; None if the store says that it has not."""
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self.record()
                if self._open:
                    await self._judge()
        except TimeoutError:
            return SessionError(Code.SESSION_STORE_UNAVAILABLE, "the store does not respond")
        except SessionError as error:
            return error
        except Exception as error:  # nothing may end the watch while calls are open
            raised = type(error).__name__
            return SessionError(Code.SESSION_STORE_UNAVAILABLE, f"the watch met {raised}")
        return None
