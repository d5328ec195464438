"""Many callers, one operation: whoever asks while it runs shares its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Runs at most one operation at a time.

    The operation belongs to no caller: one that is cancelled, the first included, stops waiting
    and the others still get the outcome.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[T] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether an operation runs in the current event loop, which `run` would join."""
        task = self._task
        if task is None or task.done():
            return False
        return task.get_loop() is asyncio.get_running_loop()

    async def run(self, operation: Callable[[], Coroutine[object, object, T]]) -> T:
        """The outcome of the operation under way, or of `operation`, begun now."""
        if self._task is None or not self.is_under_way:
            self._task = asyncio.create_task(operation())
        return await asyncio.shield(self._task)
