"""Waiting as a task of asyncio. Deadlines are values of `time.monotonic()`."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import time
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")
Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

sleep = asyncio.sleep
Interruption = asyncio.CancelledError
"""An object that can end a wait early."""


class Context:
    """Base of an object for `async with`: in the block of a thread it says so."""

    __slots__ = ()

    if not TYPE_CHECKING:  # which reports `with` itself

        def __enter__(self):
            """Raises TypeError."""
            name = type(self).__name__
            sync = name.removeprefix("Async")
            raise TypeError(f"{name} needs `async with`, and its calls `await`; or use {sync}")

        def __exit__(self, *_):
            """For `with`, which looks for both."""


class Lock:
    """For one task at a time, first come, first served; it may outlive an event loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    async def acquire(self, deadline: float) -> asyncio.Lock | None:
        """Acquires the lock, to be released by `release()`; None if the deadline came first."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._lock = loop, asyncio.Lock()
        lock = self._lock
        try:
            async with asyncio.timeout(_seconds_until(deadline)):
                await lock.acquire()
        except TimeoutError:
            return None
        return lock


class Wakeup:
    """Ends a wait of the task that created it; any thread or signal handler may call it."""

    def __init__(self) -> None:
        self._loop, self._called = asyncio.get_running_loop(), asyncio.Event()

    def __call__(self) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._called.set)

    async def wait(self, deadline: float) -> bool:
        """Waits until the deadline; returns whether it was called since the last wait."""
        try:
            async with asyncio.timeout(_seconds_until(deadline)):
                await self._called.wait()
        except TimeoutError:
            return False
        self._called.clear()
        return True


def stops_event_loop() -> bool:
    """False: a task that waits lets its event loop go on."""
    return False


async def finished(
    function: Callable[Given, Coroutine[Any, Any, Result]],
    *given: Given.args,
    **named: Given.kwargs,
) -> Result:
    """What `function` returns; each cancellation waits until it returns."""
    return await _finished(asyncio.ensure_future(function(*given, **named)))


async def in_thread(
    function: Callable[Given, Result], *given: Given.args, **named: Given.kwargs
) -> Result:
    """What `function` returns, called in another thread; a cancellation waits until it returns.

    That is no task, which `asyncio.run` would cancel at its end with all others.
    """
    call = partial(copy_context().run, function, *given, **named)
    return await _finished(asyncio.get_running_loop().run_in_executor(None, call))


async def _finished(work: asyncio.Future[Result]) -> Result:
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        raise


async def readable(connection: socket.socket | int, deadline: float) -> bool:
    """Whether there were bytes to receive, or the end of the stream, before the deadline."""
    loop = asyncio.get_running_loop()
    return await _ready(loop.add_reader, loop.remove_reader, connection, deadline)


async def writable(connection: socket.socket, deadline: float) -> bool:
    """Whether there was room to send before the deadline."""
    loop = asyncio.get_running_loop()
    return await _ready(loop.add_writer, loop.remove_writer, connection, deadline)


async def stream_of(connection: socket.socket) -> Stream:
    """A connected socket in the form in which the caller uses it."""
    return await asyncio.open_unix_connection(sock=connection)


async def _ready(
    watch: Callable[..., Any],
    unwatch: Callable[..., Any],
    connection: socket.socket | int,
    deadline: float,
) -> bool:
    ready = asyncio.Event()
    watch(connection, ready.set)
    try:
        async with asyncio.timeout(_seconds_until(deadline)):
            return await ready.wait()
    except TimeoutError:
        return False
    finally:
        unwatch(connection)


def _seconds_until(deadline: float) -> float | None:
    return None if deadline == math.inf else max(0.0, deadline - time.monotonic())
