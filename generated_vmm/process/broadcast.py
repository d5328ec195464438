"""What changes while others wait for it: threads, tasks of event loops, and signal handlers.

Nobody holds a lock while waiting, so a signal handler may wait for what it has interrupted.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Broadcast:
    """Tells everybody who waits that something has changed."""

    def __init__(self) -> None:
        self._listeners: set[Callable[[], object]] = set()

    def notify(self) -> None:
        """Lets everybody look again."""
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
        self._position = 0
        self._ended = False

    @property
    def position(self) -> int:
        """How much there has been since the start, what is no longer kept included."""
        return self._position

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self._ended

    def end(self) -> None:
        """Says that nothing more will come."""
        self._ended = True
        self.notify()

    def has_more(self, position: int) -> bool:
        """Whether there is something from a position on."""
        return self._position > position


class LastItems(BroadcastLog, Generic[Item]):
    """The last items of a stream, oldest first."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._items: deque[tuple[int, Item]] = deque(maxlen=size)  # each with its position

    def __iter__(self) -> Iterator[Item]:
        return iter(self.piece(0)[0])

    def __len__(self) -> int:
        return len(self._items)

    @property
    def last(self) -> Item | None:
        """The last item there was."""
        return self._items[-1][1] if self._items else None

    def put(self, item: Item) -> None:
        """Adds an item."""
        self._items.append((self._position, item))
        self._position += 1
        self.notify()

    def piece(self, position: int) -> tuple[list[Item], int]:
        """What is kept from a position on, and the position after it."""
        items = self._items.copy()  # at once, while the thread that puts goes on
        end = items[-1][0] + 1 if items else self._position
        return [item for at, item in items if at >= position], end


class Work(Broadcast, Generic[Result]):
    """A call in a thread of its own, where no signal handler interrupts it."""

    def __init__(self, call: Callable[[Callable[[], None]], Result], name: str) -> None:
        """`call` gets a function that raises once the work is cancelled."""
        super().__init__()
        self._call, self._name = call, name
        self._is_cancelled = self._is_done = False
        self._turn = [None]  # whoever takes it begins the work, or decides that it never will
        self._value: list[Result] = []
        self._error: BaseException | None = None

    def start(self) -> None:
        """Starts the thread."""
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def is_done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._is_done

    def result(self) -> Result:
        """What the call gave; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._value[0]

    def cancel(self) -> None:
        """Lets the call end soon, or not begin."""
        self._is_cancelled = True
        if taken(self._turn):
            self._is_done = True

    def _require_wanted(self) -> None:
        if self._is_cancelled:
            raise InterruptedError("it was cancelled")

    def _run(self) -> None:
        if not taken(self._turn):
            return
        try:
            self._value.append(self._call(self._require_wanted))
        except BaseException as error:
            self._error = error
        self._is_done = True
        self.notify()


def taken(turn: list[Item]) -> bool:
    """Takes what one alone can take; false when somebody else has."""
    try:
        turn.pop()
    except IndexError:
        return False
    return True
