"""Many callers, one operation: whoever asks while it runs shares its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)
Outcome = TypeVar("Outcome")


class Flights(Generic[Name, Outcome]):
    """Runs at most one operation at a time for each name.

    An operation belongs to no caller: one that is cancelled, the first included, stops waiting; the
    operation goes on to its end and the others get its outcome.
    """

    def __init__(self) -> None:
        self._tasks: dict[Name, asyncio.Task[Outcome]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def is_under_way(self, name: Name) -> bool:
        """Whether an operation of this name runs in the current event loop; `run` would join it."""
        return self._task(name) is not None

    async def run(
        self, name: Name, operation: Callable[[], Coroutine[object, object, Outcome]]
    ) -> Outcome:
        """The outcome of the operation under way, or of `operation`, begun here."""
        return await asyncio.shield(self.begin(name, operation))

    def begin(
        self, name: Name, operation: Callable[[], Coroutine[object, object, Outcome]]
    ) -> asyncio.Task[Outcome]:
        """The task of the operation under way, or of `operation`, begun here; never cancel it."""
        task = self._task(name)
        if task is None:
            task = self._tasks[name] = asyncio.create_task(operation())
            task.add_done_callback(lambda ended: self._forget(name, ended))
        return task

    async def ended(self, seconds: float) -> None:
        """Waits for what runs in the current event loop to end, at most `seconds`."""
        tasks = [task for name in self._tasks if (task := self._task(name)) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _task(self, name: Name) -> asyncio.Task[Outcome] | None:
        task = self._tasks.get(name)
        # A task of another event loop (an earlier test, the parent of a fork) never ends here.
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            return None
        return task

    def _forget(self, name: Name, ended: asyncio.Task[Outcome]) -> None:
        if not ended.cancelled():
            ended.exception()  # asyncio complains of an exception that nobody has looked at
        if self._tasks.get(name) is ended:
            del self._tasks[name]
