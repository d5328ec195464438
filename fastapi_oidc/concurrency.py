"""Run work once for many callers, a few at a time, and not after a shutdown has begun."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class SingleFlight(Generic[Key, Result]):
    """Runs at most one operation per key at a time; callers that ask meanwhile share its result.

    An operation belongs to no caller. A caller that is cancelled, the first one included, stops
    waiting; the operation goes on.
    """

    def __init__(self) -> None:
        self._tasks: dict[Key, asyncio.Task[Result]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def is_running(self, key: Key) -> bool:
        """Whether an operation of this key runs in the current event loop; `run` would join it."""
        return self._running(key) is not None

    async def run(
        self, key: Key, operation: Callable[[], Coroutine[object, object, Result]]
    ) -> Result:
        """The result of the operation that runs under `key`, or of `operation`, started now."""
        return await asyncio.shield(self.start(key, operation))

    def start(
        self, key: Key, operation: Callable[[], Coroutine[object, object, Result]]
    ) -> asyncio.Task[Result]:
        """The task that runs under `key`, or a new one for `operation`; callers never cancel it."""
        task = self._running(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(operation())
            task.add_done_callback(lambda done: self._forget(key, done))
        return task

    async def wait(self, seconds: float) -> None:
        """Wait up to `seconds` for the operations that run in this event loop."""
        tasks = [task for key in self._tasks if (task := self._running(key)) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _running(self, key: Key) -> asyncio.Task[Result] | None:
        task = self._tasks.get(key)
        # A task of another event loop (an earlier test, the parent of a fork) never ends here.
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            return None
        return task

    def _forget(self, key: Key, done: asyncio.Task[Result]) -> None:
        if not done.cancelled():
            done.exception()  # asyncio warns about an exception that nobody retrieved
        if self._tasks.get(key) is done:
            del self._tasks[key]


class ConcurrencyLimit:
    """Lets `limit` blocks run at a time in each event loop, in the order in which they asked."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._loop: asyncio.AbstractEventLoop | None = None
        self._semaphore = asyncio.Semaphore(limit)

    def slot(self) -> asyncio.Semaphore:
        """`async with limit.slot():` runs its block when one of the slots is free."""
        # A semaphore belongs to the event loop in which it was first waited for.
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._semaphore = loop, asyncio.Semaphore(self.limit)
        return self._semaphore


class ShuttingDown(Exception):
    """The operation had not started when the application shut down."""


class ShutdownGate:
    """Refuses what was asked for before a shutdown and has not started when it begins.

    An application may shut down and start again any number of times.
    """

    def __init__(self) -> None:
        self._open = [True]

    def ticket(self) -> Callable[[], None]:
        """A check for one operation: calling it raises ShuttingDown once a shutdown has begun."""
        gate = self._open

        def check() -> None:
            if not gate[0]:
                raise ShuttingDown

        return check

    @contextmanager
    def closed(self) -> Iterator[None]:
        """The gate is closed within the block; what is asked for afterwards passes again."""
        self._open[0] = False
        try:
            yield
        finally:
            self._open = [True]


async def settled(value: Result | Awaitable[Result]) -> Result:
    """The result of a callback that may or may not be async."""
    if inspect.isawaitable(value):
        result: Result = await value
        return result
    return value
