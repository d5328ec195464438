"""Changes that threads, tasks of event loops, and signal handlers wait for.

Waiting holds no lock, so a signal handler may wait for the code that it has interrupted.
"""

from __future__ import annotations

import contextlib
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Broadcast:
    """Wakes all waiters when something has changed."""

    def __init__(self) -> None:
        self._listeners: set[Callable[[], object]] = set()

    def notify(self) -> None:
        """Wakes all waiters."""
        for listener in list(self._listeners):
            listener()

    @contextlib.contextmanager
    def listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Calls the listener at each change, in whatever thread, while the block runs."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)


class Work(Generic[Result]):
    """A call that a thread of its own carries out.

    A future of the standard library has a lock, which stays held for ever if the handler of a
    signal raises in the moment in which the lock is taken.
    """

    def __init__(self, call: Callable[[], Result]) -> None:
        self._call, self.changing = call, Broadcast()
        self._taken: dict[str, str] = {}
        self._outcomes: list[Callable[[], Result]] = []

    def start(self) -> None:
        """Raises RuntimeError if no thread can be started."""
        start_new_thread(self._carry_out, ())

    def withdraw(self) -> None:
        """Lets nobody carry it out, unless that has begun."""
        self._taken.setdefault("by", "nobody")

    def is_over(self) -> bool:
        """Whether it has ended, or was withdrawn."""
        return bool(self._outcomes) or self._taken.get("by") == "nobody"

    def result(self) -> Result:
        """What the call has returned, once; raises its error, which refers to nothing of it."""
        return self._outcomes.pop()()

    def _carry_out(self) -> None:
        if self._taken.setdefault("by", "the thread") == "the thread":
            try:
                value = self._call()
                self._outcomes.append(lambda: value)
            except BaseException as error:
                self._outcomes.append(_raising(error))
            self.changing.notify()
        del self


def _raising(error: BaseException) -> Callable[[], Any]:
    errors = [error]

    def raise_error() -> Any:
        raise errors.pop()

    return raise_error
