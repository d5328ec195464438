"""The end of a task that is not needed any more."""

from __future__ import annotations

import asyncio
from typing import Any, Final

AGAIN: Final = 1.0
"""Seconds after which a task that goes on is cancelled once more."""


async def cancelled(task: asyncio.Task[Any], *, again: float = AGAIN) -> None:
    """Comes back when `task` has ended, which is cancelled as often as that takes.

    Once may be too little: `asyncio.wait_for` of Python 3.11, by which redis-py sends commands,
    gives its result in place of a cancellation that comes in the same moment.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=again)
