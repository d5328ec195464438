"""Waiting for the work of another thread."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self, TypeVar

from generated_vmm.concurrency._async import Interruption, Wakeup
from generated_vmm.process.broadcast import Broadcast, Work
from generated_vmm.process.errors import MonitorError
from generated_vmm.transport.calls import deadline_after

Result = TypeVar("Result")
THREAD = "monitor-network"


async def wait_for(
    changing: Broadcast, is_true: Callable[[], object], seconds: float | None = None
) -> None:
    """Waits until a condition is true. Raises TimeoutError if it is not in time."""
    wakeup, deadline = Wakeup(), deadline_after(seconds)
    with changing.listening(wakeup):
        while not is_true():
            if not await wakeup.wait(deadline):
                raise TimeoutError


async def until(
    changing: Broadcast, is_true: Callable[[], bool], seconds: float | None = None
) -> None:
    """Waits as `wait_for`; an interruption in the meantime is raised afterwards."""
    interruption, deadline = None, deadline_after(seconds)
    while not is_true():
        try:
            await wait_for(changing, is_true, max(0.0, deadline - time.monotonic()))
        except Interruption as error:
            interruption = error
    if interruption is not None:
        raise interruption


async def finished(work: Work[Result]) -> Result:
    """The result of a thread's work; an interruption of the wait cancels the work."""
    try:
        work.start()
        await wait_for(work, work.is_done)
    except BaseException:
        work.cancel()
        await until(work, work.is_done)
        raise
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
            await finished(Work(lambda _: self._make(), THREAD))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await _surely_finished(self._remove)
        except MonitorError:
            raise
        except BaseException:  # an interruption
            await _surely_finished(self._remove)
            raise


async def _surely_finished(call: Callable[[], None]) -> None:
    work = Work(lambda _: call(), THREAD)
    work.start()
    await until(work, work.is_done)
    work.result()
