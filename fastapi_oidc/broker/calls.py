"""The calls of one access that are under way in this process: bounded, watched and cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from anyio import CancelScope

from fastapi_oidc.broker.limits import POLL_SECONDS, UNSURE_SECONDS, Limits, Refused
from fastapi_oidc.errors import Code, SessionError


class OpenCalls:
    """Bounds the calls of one access, and cuts them when it has ended.

    `judge` raises when the access has ended: it is called every POLL_SECONDS while a call is under
    way.
    """

    def __init__(self, judge: Callable[[], Awaitable[object]], limits: Limits) -> None:
        self._judge, self._limits = judge, limits
        # Scopes, because httpcore closes connections in shields against them, not against tasks.
        self._open: dict[CancelScope, SessionError | None] = {}
        self._watch: asyncio.Task[None] | None = None
        self._is_watched, self._judged_at = False, 0.0

    def __len__(self) -> int:
        return len(self._open)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Bound a call; raises Refused (broker.busy, broker.timeout), or why it was cut."""
        if len(self._open) >= self._limits.concurrent:
            raise Refused(Code.BROKER_BUSY, f"{self._limits.concurrent} calls are under way")
        ends = asyncio.get_running_loop().time() + self._limits.seconds
        self._open[bound := CancelScope(deadline=ends)] = None
        self._begin_watch()
        try:
            with bound:
                yield
        finally:
            because = self._open.pop(bound)
        if bound.cancelled_caught:
            raise because or Refused(Code.BROKER_TIMEOUT, "the call took too long")

    def cut(self, because: SessionError) -> None:
        """End all calls under way."""
        for bound in self._open:
            self._open[bound] = because
            bound.cancel()

    def _begin_watch(self) -> None:
        if not self._is_watched:
            loop = asyncio.get_running_loop()
            self._is_watched, self._judged_at = True, loop.time()
            loop.call_later(POLL_SECONDS, self._look)

    def _look(self) -> None:
        self._is_watched = bool(self._open)
        if self._open:
            self._watch = asyncio.create_task(self._judge_again())

    async def _judge_again(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._judge()
            self._judged_at = began
        except (SessionError, TimeoutError) as error:
            silent = SessionError(Code.SESSION_STORE_UNAVAILABLE, "the store does not respond")
            because = error if isinstance(error, SessionError) else silent
            if not because.is_outage or loop.time() - self._judged_at >= UNSURE_SECONDS:
                self.cut(because)
        loop.call_later(max(0.0, began + POLL_SECONDS - loop.time()), self._look)
