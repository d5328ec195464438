"""What grows while others read it: bounded, filled by one thread, followed by threads and tasks."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Growing:
    """A position that grows until the end, and those who wait for it to."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._listeners: set[Callable[[], object]] = set()
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
        with self._changed:
            self._ended = True
            self._tell()

    def has_more(self, position: int) -> bool:
        """Whether there is something from a position on."""
        return self._position > position

    def wait(self, position: int, seconds: float | None = None) -> bool:
        """Waits for something from a position on; false at the end. TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_decided(position), seconds):
                raise TimeoutError
            return self.has_more(position)

    async def async_wait(self, position: int, seconds: float | None = None) -> bool:
        """As `wait`, for a task of an event loop."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

        with self._changed:
            self._listeners.add(wake)
        try:
            async with asyncio.timeout(seconds):
                while not self._is_decided(position):
                    await changed.wait()
                    changed.clear()
        finally:
            with self._changed:
                self._listeners.discard(wake)
        return self.has_more(position)

    def _is_decided(self, position: int) -> bool:
        return self._ended or self.has_more(position)

    def _tell(self) -> None:
        self._changed.notify_all()
        for listener in self._listeners:
            listener()


class Kept(Growing, Generic[Item]):
    """The last items of a stream, oldest first."""

    def __init__(self, kept: int) -> None:
        super().__init__()
        self._items: deque[Item] = deque(maxlen=kept)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.piece(0)[0])

    def __len__(self) -> int:
        return len(self._items)

    @property
    def last(self) -> Item | None:
        """The last item there was."""
        return self._items[-1] if self._items else None

    def put(self, item: Item) -> None:
        """Adds an item."""
        with self._changed:
            self._items.append(item)
            self._position += 1
            self._tell()

    def piece(self, position: int) -> tuple[list[Item], int]:
        """What is kept from a position on, and the position after it."""
        with self._changed:
            first = self._position - len(self._items)
            return list(self._items)[max(0, position - first) :], self._position


class Recent(Kept[Item]):
    """The last items of a stream, oldest first: iterate over it, or `follow` those to come."""

    def follow(self, since: int | None = None) -> Iterator[Item]:
        """The items from a position on (None: those to come), until the stream ends.

        A follower that is slower than the stream misses the items that are no longer kept.
        """
        return self._follow(self.position if since is None else since)

    def _follow(self, position: int) -> Iterator[Item]:
        while self.wait(position):
            items, position = self.piece(position)
            yield from items


class AsyncRecent(Kept[Item]):
    """`Recent` for the tasks of an event loop: iterate over it, or `async for` those to come."""

    def follow(self, since: int | None = None) -> AsyncIterator[Item]:
        """The items from a position on (None: those to come), until the stream ends.

        A follower that is slower than the stream misses the items that are no longer kept.
        """
        return self._follow(self.position if since is None else since)

    async def _follow(self, position: int) -> AsyncIterator[Item]:
        while await self.async_wait(position):
            items, position = self.piece(position)
            for item in items:
                yield item
