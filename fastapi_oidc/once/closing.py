"""What was asked for before an application is shut down, and has not begun, does not begin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


class Closed(Exception):
    """It had not begun when the application was shut down."""


@dataclass(slots=True)
class _Life:
    """From a start of the application until it is shut down."""

    is_over: bool = False


class Closing:
    """Shuts down, any number of times: what is asked for afterwards belongs to the next start."""

    def __init__(self) -> None:
        self._life = _Life()

    def unless_closed(
        self, operation: Callable[[Given], Awaitable[Made]]
    ) -> Callable[[Given], Awaitable[Made]]:
        """As `operation`; raises Closed instead of beginning after a shutdown that began after now,
        or is under way now."""
        life = self._life

        async def begun(given: Given) -> Made:
            if life.is_over:
                raise Closed
            return await operation(given)

        return begun

    @contextmanager
    def closed(self) -> Iterator[None]:
        """The shutdown, for as long as the block runs."""
        self._life.is_over = True
        try:
            yield
        finally:
            self._life = _Life()
