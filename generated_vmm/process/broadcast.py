"""Changes that threads, tasks of event loops, and signal handlers wait for.

Waiting holds no lock, so a signal handler may wait for the code that it has interrupted.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from generated_vmm.transport.connection import popped

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


class BroadcastLog(Broadcast):
    """A position that grows until the end."""

    def __init__(self) -> None:
        super().__init__()
        self.position = 0
        """The length since the start, dropped data included."""
        self.ended = False
        """Whether nothing more will come."""

    def end(self) -> None:
        """Ends it: nothing more will come."""
        self.ended = True
        self.notify()


class LastItems(BroadcastLog, Generic[Item]):
    """The last items of a stream, oldest first, as far as they fit into a number of bytes."""

    def __init__(self, size: int, most_bytes: float = math.inf) -> None:
        super().__init__()
        self._items: deque[tuple[int, Item]] = deque()  # each with its position
        self._sizes: deque[int] = deque()
        self._left, self._bytes_left = size, most_bytes

    def __iter__(self) -> Iterator[Item]:
        return iter(self.piece(0)[0])

    def __len__(self) -> int:
        return len(self._items)

    @property
    def last(self) -> Item | None:
        """The last item."""
        return self._items[-1][1] if self._items else None

    def put(self, *items: Item, size: int = 0) -> None:
        """Adds items that have a size in bytes, and drops the oldest."""
        for item in items:
            self._items.append((self.position, item))
            self._sizes.append(size)
            self.position += 1
            self._left, self._bytes_left = self._left - 1, self._bytes_left - size
            while self._left < 0 or self._bytes_left < 0:
                self._items.popleft()
                self._left, self._bytes_left = (
                    self._left + 1,
                    self._bytes_left + self._sizes.popleft(),
                )
        self.notify()

    def piece(self, position: int) -> tuple[list[Item], int]:
        """The stored items from a position on, and the position after them."""
        items = self._items.copy()  # atomic: another thread may put items meanwhile
        end = items[-1][0] + 1 if items else self.position
        return [item for at, item in items if at >= position], end


class Work(Broadcast, Generic[Result]):
    """A call in a thread of its own, where no signal handler interrupts it."""

    def __init__(self, call: Callable[[Callable[[], None]], Result], name: str) -> None:
        """`call` gets a function that raises once the work is cancelled."""
        super().__init__()
        self._call, self._name = call, name
        self._is_cancelled = self._is_done = False
        self._turn = [True]  # a thread that takes it begins the work, or decides that it never will
        self._value: list[Result] = []
        self._error: BaseException | None = None

    def start(self) -> None:
        """Starts the thread."""
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def is_done(self) -> bool:
        """Whether it has ended, with or without an error."""
        return self._is_done

    def result(self) -> Result:
        """The result of the call; raises its error, once."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its frames refer to this object, and to descriptors
        return self._value[0]

    def cancel(self) -> None:
        """Makes the call end soon, or not begin."""
        self._is_cancelled = True
        if popped(self._turn):
            self._is_done = True

    def _require_wanted(self) -> None:
        if self._is_cancelled:
            raise InterruptedError("it was cancelled")

    def _run(self) -> None:
        if not popped(self._turn):
            return
        try:
            self._value.append(self._call(self._require_wanted))
        except BaseException as error:
            self._error = error
        self._is_done = True
        self.notify()
