"""Waiting for the work of another thread."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self, TypeVar

from generated_vmm.concurrency._async import Interruption, Wakeup
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.outlets import Broadcast, Work
from generated_vmm.transport.calls import deadline_after

Result = TypeVar("Result")


async def comes_true(
    changing: Broadcast, is_true: Callable[[], object], seconds: float | None = None
) -> bool:
    """Waits until a condition is true; false if it is not in time."""
    wakeup, deadline = Wakeup(), deadline_after(seconds)
    with changing.listening(wakeup):
        while not is_true():
            if time.monotonic() >= deadline or not await wakeup.wait(deadline):
                return False
    return True


async def wait_for(
    changing: Broadcast, is_true: Callable[[], object], seconds: float | None = None
) -> None:
    """Waits until a condition is true. Raises TimeoutError if it is not in time."""
    if not await comes_true(changing, is_true, seconds):
        raise TimeoutError


async def until(
    changing: Broadcast, is_true: Callable[[], bool], seconds: float | None = None
) -> None:
    """Waits as `wait_for`; the first interruption in the meantime is raised afterwards."""
    deadline = deadline_after(seconds)
    try:
        is_in_time = await comes_true(changing, is_true, seconds)
    except Interruption:
        while not is_true() and time.monotonic() < deadline:
            # others may come, perhaps at every turn of the event loop
            with contextlib.suppress(Interruption):
                await comes_true(changing, is_true, deadline - time.monotonic())
        raise
    if not is_in_time:
        raise TimeoutError


async def in_time(call: Callable[[], Result], seconds: float) -> Result | None:
    """The result of a call in another thread, if one comes in time; an interruption ends the wait.

    The call may go on.
    """
    work = Work(call)
    try:
        work.start()
    except RuntimeError:  # no thread can be started
        return None
    if await comes_true(work.changing, work.is_over, seconds):
        with contextlib.suppress(Exception):
            return work.result()
    return None


async def in_own_thread(call: Callable[[], Result]) -> Result:
    """The result of a call in another thread; an interruption is raised once it has ended."""
    work = Work(call)
    try:
        work.start()
    except BaseException:
        work.withdraw()
        await until(work.changing, work.is_over)
        raise
    await until(work.changing, work.is_over)
    return work.result()


class AsyncBlock(ABC):
    """A resource that a thread creates at the start of a block and removes at its end."""

    @property
    @abstractmethod
    def _is_there(self) -> bool:
        """Whether it was created and not removed."""

    @abstractmethod
    def _make(self) -> None:
        """Creates it, or leaves nothing behind."""

    @abstractmethod
    def _remove(self) -> None:
        """Removes it if it exists. Two calls at the same time are safe."""

    async def __aenter__(self) -> Self:
        if self._is_there:
            raise MonitorError("the network is in use already")
        try:
            await in_own_thread(self._make)
        except BaseException:
            await in_own_thread(self._remove)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await in_own_thread(self._remove)
        except MonitorError:
            raise
        except BaseException:  # an interruption, perhaps before the thread began
            await in_own_thread(self._remove)
            raise
