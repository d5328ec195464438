# Derived from `generated_vmm/process/_async/waiting.py` by `make codegen`. Do not edit.
"""Waiting for the work of another thread."""

from __future__ import annotations

import contextlib
import time
from _thread import start_new_thread
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeVar

from generated_vmm.concurrency._sync import Interruption, Wakeup
from generated_vmm.process.outlets import Broadcast
from generated_vmm.transport.calls import deadline_after
from generated_vmm.transport.connection import popped

Result = TypeVar("Result")


def comes_true(
    changing: Broadcast, is_true: Callable[[], object], seconds: float | None = None
) -> bool:
    """Waits until a condition is true; false if it is not in time."""
    wakeup, deadline = Wakeup(), deadline_after(seconds)
    with changing.listening(wakeup):
        while not is_true():
            if time.monotonic() >= deadline or not wakeup.wait(deadline):
                return False
    return True


def until(changing: Broadcast, is_true: Callable[[], object], seconds: float | None = None) -> bool:
    """Waits as `comes_true`; the first interruption in the meantime is raised afterwards."""
    deadline = deadline_after(seconds)
    try:
        return comes_true(changing, is_true, seconds)
    except Interruption:
        while not is_true() and time.monotonic() < deadline:
            # others may come, perhaps at every turn of the event loop
            with contextlib.suppress(Interruption):
                comes_true(changing, is_true, deadline - time.monotonic())
        raise


def in_own_thread(call: Callable[[], Result], seconds: float | None = None) -> Result:
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
            until(changing, lambda: outcomes)
        raise
    wait = until if seconds is None else comes_true
    if not wait(changing, lambda: outcomes, seconds):
        raise TimeoutError
    result: Result
    result, error = outcomes.pop()
    try:
        if error is not None:
            raise error
        return result
    finally:
        del error  # whose frames are those of this call


class Block(ABC):
    """What a thread makes at the start of a block and removes at its end."""

    @abstractmethod
    def _make(self) -> None:
        """Makes it, or leaves nothing behind."""

    @abstractmethod
    def _remove(self) -> None:
        """Removes it if it exists."""

    def __enter__(self) -> Self:
        try:
            in_own_thread(self._make)
        except BaseException:
            in_own_thread(self._remove)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            in_own_thread(self._remove)
        except BaseException:  # an interruption, perhaps before the thread began
            in_own_thread(self._remove)
            raise
