"""The refresh lock of a single process, in its memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Final

from fastapi_oidc.clock import Clock
from fastapi_oidc.once import Expiring, Flights
from fastapi_oidc.session.abilities import Turn

REMEMBERED_SECONDS: Final = 60


class MemoryRefreshLock:
    """One run per session within this process; its result is remembered for a minute."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._results: Expiring[str, bytes] = Expiring(self._clock)
        self._kept: Expiring[str, bytes] = Expiring(self._clock)
        self._flights: Flights[str, bytes] = Flights()

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], /
    ) -> bytes:
        """The result of the one run, which belongs to no caller; see `RefreshLock`."""
        return await self.run_in_turn(session_id, operation, nullcontext)

    async def run_in_turn(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], turn: Turn, /
    ) -> bytes:
        """As `run_exclusive`; who waits for the one run takes no turn."""

        async def remembered_or_run() -> bytes:
            result = self._results.get(session_id)
            if result is None:
                async with turn():
                    result = await operation()
                ends = self._clock.now() + REMEMBERED_SECONDS
                self._results.set(session_id, result, ends=ends)
            return result

        return await self._flights.run(session_id, remembered_or_run)

    def claim(self, name: str, data: bytes, seconds: int, /) -> bytes | None:
        """Keeps `data` under `name` for that long, unless something is: then what is kept there."""
        kept = self._kept.get(name)
        if kept is None:
            self._kept.set(name, data, ends=self._clock.now() + seconds)
        return kept

    def keep(self, name: str, data: bytes, seconds: int, /) -> None:
        """Keeps `data` under `name` for that long."""
        self._kept.set(name, data, ends=self._clock.now() + seconds)

    def kept(self, name: str, /) -> bytes | None:
        """What is kept under `name`."""
        return self._kept.get(name)

    def forget(self, name: str, /) -> None:
        """Keeps it no longer."""
        self._kept.pop(name)
