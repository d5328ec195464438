"""Waiting for the work of another thread."""

from __future__ import annotations

import contextlib
import time
from _thread import start_new_thread
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeVar

from generated_vmm.concurrency._async import Interruption, Wakeup
from generated_vmm.process.outlets import Broadcast
from generated_vmm.transport.calls import deadline_after
from generated_vmm.transport.connection import popped

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


async def until(
    changing: Broadcast, is_true: Callable[[], object], seconds: float | None = None
) -> bool:
    """Waits as `comes_true`; the first interruption in the meantime is raised afterwards."""
    deadline = deadline_after(seconds)
    try:
        return await comes_true(changing, is_true, seconds)
    except Interruption:
        while not is_true() and time.monotonic() < deadline:
            # others may come, perhaps at every turn of the event loop
            with contextlib.suppress(Interruption):
                await comes_true(changing, is_true, deadline - time.monotonic())
        raise


async def in_own_thread(call: Callable[[], Result], seconds: float | None = None) -> Result:
    """The result of a call in another thread; an interruption is raised once it has ended.

    With `seconds`, the call may go on: raises TimeoutError if it has not ended in time. A future of
    the standard library has a lock, which stays held for ever if the handler of a signal raises in
    the moment in which the lock is taken.
    """
    changing, unbegun = Broadcast(), [True]
    outcomes = list[tuple[Any, BaseException | None]]()

    def carry_out() -> None:
        if popped(unbegun):
            try:
                outcomes.append((call(), None))
            except BaseException as error:
                outcomes.append((None, error))
            changing.notify()

    try:
        start_new_thread(carry_out, ())
    except BaseException:  # perhaps an interruption, after the thread was started
        if not popped(unbegun):
            await until(changing, lambda: outcomes)
        raise
    wait = until if seconds is None else comes_true
    if not await wait(changing, lambda: outcomes, seconds):
        raise TimeoutError
    result: Result
    result, error = outcomes.pop()
    try:
        if error is not None:
            raise error
        return result
    finally:
        del error  # whose frames are those of this call


class AsyncBlock(ABC):
    """What a thread makes at the start of a block and removes at its end."""

    @abstractmethod
    def _make(self) -> None:
        """Makes it, or leaves nothing behind."""

    @abstractmethod
    def _remove(self) -> None:
        """Removes it if it exists."""

    async def __aenter__(self) -> Self:
        try:
            await in_own_thread(self._make)
        except BaseException:
            await in_own_thread(self._remove)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await in_own_thread(self._remove)
        except BaseException:  # an interruption, perhaps before the thread began
            await in_own_thread(self._remove)
            raise
