"""Run an operation once for many callers, and limit concurrency."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

from anyio import CapacityLimiter, to_thread

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")
By = TypeVar("By")


class SingleFlight(Generic[Key, Result]):
    """Runs one operation per key and event loop at a time; concurrent callers share its result.

    An operation does not belong to a caller: if a caller is cancelled, even the first one, the
    operation continues.
    """

    def __init__(self) -> None:
        self._tasks: PerLoop[dict[Key, asyncio.Task[Result]]] = PerLoop(dict)
        self._by: WeakKeyDictionary[asyncio.Task[Result], Any] = WeakKeyDictionary()

    async def run(
        self, key: Key, operation: Callable[[], Coroutine[object, object, Result]]
    ) -> Result:
        """The result of the operation that is running for `key`, or else of `operation`."""
        return await asyncio.shield(self.start(key, operation))

    def start(
        self, key: Key, operation: Callable[[], Coroutine[object, object, Result]]
    ) -> asyncio.Task[Result]:
        """The task that is running for `key`, or else a new one. Callers must not cancel it."""
        tasks = self._tasks.here()
        task = tasks.get(key)
        if task is None or task.done():
            task = tasks[key] = asyncio.create_task(operation())
            task.add_done_callback(lambda done: self._forget(tasks, key, done))
        return task

    def begin(
        self, key: Key, by: By, operation: Callable[[], Coroutine[object, object, Result]]
    ) -> tuple[asyncio.Task[Result], By]:
        """Like `start`; also the `by` of the caller whose operation it is."""
        task = self.start(key, operation)
        return task, self._by.setdefault(task, by)

    def under_way(self) -> Sequence[asyncio.Task[Result]]:
        """The operations that are running in this event loop."""
        return [*self._tasks.here().values()]

    async def wait(self, seconds: float) -> None:
        """Wait up to `seconds` for the operations that are running in this event loop."""
        if tasks := self.under_way():
            await asyncio.wait(tasks, timeout=seconds)

    @staticmethod
    def _forget(
        tasks: dict[Key, asyncio.Task[Result]], key: Key, done: asyncio.Task[Result]
    ) -> None:
        if not done.cancelled():
            done.exception()  # asyncio warns about exceptions that are never retrieved
        if tasks.get(key) is done:
            del tasks[key]


STALLS: Final = 8
"""For so many stalls of the event loop nothing gives up."""


class TimeLimit:
    """Like `asyncio.timeout`, but a stall of the event loop counts as an eighth of it at most.

    In a process without processor time everything that waits would give up at once, although the
    responses have arrived, and would ask again.
    """

    __slots__ = ("_left", "_limit", "_share", "_timer")

    def __init__(self, seconds: float) -> None:
        self._share, self._left = seconds / STALLS, STALLS
        self._limit = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()
        self._wait()

    async def __aexit__(self, *error: Any) -> None:
        self._timer.cancel()
        await self._limit.__aexit__(*error)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._share, self._count)

    def _count(self) -> None:
        self._left -= 1
        if self._left:
            self._wait()
        else:
            self._limit.reschedule(0)


class PerLoop(Generic[Result]):
    """A value for each event loop, made when it is first needed there.

    The value of a closed event loop is forgotten. It may refer to its loop, as connections do.
    """

    def __init__(self, make: Callable[[], Result]) -> None:
        self._make = make
        self._values: dict[asyncio.AbstractEventLoop, Result] = {}

    def here(self) -> Result:
        """The value of this event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._values:
            for each in list(self._values):
                if each.is_closed():
                    self._values.pop(each, None)  # unless another thread has done it
            self._values[loop] = self._make()
        return self._values[loop]

    def forget(self) -> Result | None:
        """Forget the value of this event loop, and return it."""
        return self._values.pop(asyncio.get_running_loop(), None)


def is_cancelled() -> bool:
    """Whether this task is cancelled, and not merely something for which it waits."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


THREADS: Final = 40
"""Maximum number of callbacks of an event loop that run in threads, and of methods of stores."""

_threads: Final = PerLoop(lambda: (CapacityLimiter(THREADS), CapacityLimiter(THREADS)))
"""Those of stores, and of callbacks: a callback or a sync endpoint in its thread may wait for one
of the others.
"""


async def called(
    callback: Callable[..., Result | Awaitable[Result]],
    *arguments: object,
    may_be_abandoned: bool = True,
) -> Result:
    """The result of a callback of the application, which may be sync or async.

    A sync one runs in a thread, as FastAPI runs `def`, so it stops no other request. If the caller
    is cancelled, the thread goes on, and nobody waits for it; unless it `may_be_abandoned`, the
    caller does. An exception of the callback has a note that says what it was called with. If what
    it awaits was cancelled, it raises RuntimeError.
    """
    try:
        if _is_async(callback):
            return await cast("Awaitable[Result]", callback(*arguments))
        work = to_thread.run_sync(
            partial(callback, *arguments),
            abandon_on_cancel=True,
            limiter=_threads.here()[may_be_abandoned],
        )
        value = await (work if may_be_abandoned else _complete(work))
        if inspect.isawaitable(value):  # such as a lambda around an async function
            return await cast("Awaitable[Result]", value)
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise RuntimeError("a callback of the application was cancelled from within") from error
    except Exception as error:
        given = ", ".join(type(each).__name__ for each in arguments)
        name = getattr(callback, "__qualname__", type(callback).__name__)
        error.add_note(f"fastapi_oidc called {name}({given}). FastAPI injects nothing there.")
        raise
    return value


async def _complete(work: Coroutine[object, object, Result]) -> Result:
    """The result of `work`. A caller that is cancelled waits for its end."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _is_async(callback: object) -> bool:
    by_call = getattr(callback, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(by_call)
