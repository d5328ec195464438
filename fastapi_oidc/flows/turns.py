"""How many refreshes are under way at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

IN_FLIGHT: Final = 32
"""Refreshes that one process has under way at the most; more wait for their turn, unsent."""


class Turns:
    """Lets `limit` blocks run at a time, in the order in which they came."""

    def __init__(self, limit: int = IN_FLIGHT) -> None:
        self._limit = limit
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = asyncio.Semaphore(limit)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """A turn, for as long as the block runs."""
        async with self._of_this_loop():
            yield

    def _of_this_loop(self) -> asyncio.Semaphore:
        # A semaphore belongs to the event loop in which somebody first waited for it.
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._free = loop, asyncio.Semaphore(self._limit)
        return self._free
