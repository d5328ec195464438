# Derived from `generated_vmm/process/_async/waiting.py` by `make codegen`. Do not edit.
"""Waiting for the work of another thread."""

from __future__ import annotations

import contextlib
import time
from _thread import start_new_thread
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Self, TypeVar

from generated_vmm.concurrency._sync import Interruption, Wakeup
from generated_vmm.process.broadcast import Broadcast
from generated_vmm.process.errors import MonitorError
from generated_vmm.transport.calls import deadline_after

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


def wait_for(
    changing: Broadcast, is_true: Callable[[], object], seconds: float | None = None
) -> None:
    """Waits until a condition is true. Raises TimeoutError if it is not in time."""
    if not comes_true(changing, is_true, seconds):
        raise TimeoutError


def until(changing: Broadcast, is_true: Callable[[], bool], seconds: float | None = None) -> None:
    """Waits as `wait_for`; the first interruption in the meantime is raised afterwards."""
    deadline = deadline_after(seconds)
    try:
        is_in_time = comes_true(changing, is_true, seconds)
    except Interruption:
        while not is_true() and time.monotonic() < deadline:
            # others may come, perhaps at every turn of the event loop
            with contextlib.suppress(Interruption):
                comes_true(changing, is_true, deadline - time.monotonic())
        raise
    if not is_in_time:
        raise TimeoutError


def in_time(call: Callable[[], Result], seconds: float) -> Result | None:
    """The result of a call in another thread, if one comes in time; an interruption ends the wait.

    The call may go on.
    """
    work, changing = Future[Result](), Broadcast()
    try:
        start_new_thread(_carry_out, (call, work, changing))
    except RuntimeError:  # no thread can be started
        return None
    has_ended = comes_true(changing, work.done, seconds)
    return work.result() if has_ended and not work.exception() else None


def in_own_thread(call: Callable[[], Result]) -> Result:
    """The result of a call in another thread; an interruption is raised once it has ended."""
    work: Future[Result] = Future()
    changing = Broadcast()
    try:
        try:
            start_new_thread(_carry_out, (call, work, changing))
        except BaseException:
            work.cancel()
            until(changing, work.done)
            raise
        until(changing, work.done)
        return work.result()
    finally:
        del work  # this frame is one of its error's


def _carry_out(call: Callable[[], Result], work: Future[Result], changing: Broadcast) -> None:
    """Carries it out, unless it was cancelled before. Its error refers to no descriptor of it."""
    if work.set_running_or_notify_cancel():
        try:
            work.set_result(call())
        except BaseException as error:
            work.set_exception(error)
        changing.notify()
    del call, work


class Block(ABC):
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

    def __enter__(self) -> Self:
        if self._is_there:
            raise MonitorError("the network is in use already")
        try:
            in_own_thread(self._make)
        except BaseException:
            in_own_thread(self._remove)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            in_own_thread(self._remove)
        except MonitorError:
            raise
        except BaseException:  # an interruption, perhaps before the thread began
            in_own_thread(self._remove)
            raise
