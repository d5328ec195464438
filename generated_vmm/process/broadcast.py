"""Changes that threads, tasks of event loops, and signal handlers wait for.

Waiting holds no lock, so a signal handler may wait for the code that it has interrupted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


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
