"""How many of something run at once, in whichever event loop."""

from __future__ import annotations

import asyncio


class Turns:
    """Lets `limit` blocks run at a time in an event loop, in the order in which they came."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = asyncio.Semaphore(limit)

    def taken(self) -> asyncio.Semaphore:
        """A turn, for as long as the `async with` block runs."""
        # A semaphore belongs to the event loop in which somebody first waited for it.
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._free = loop, asyncio.Semaphore(self.limit)
        return self._free
