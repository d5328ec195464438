"""Who did what to a machine, and who tried in vain."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

KEPT_EVENTS: Final = 200


@dataclass(frozen=True, slots=True)
class Person:
    """Who acts: `sub` tells people of one name apart."""

    sub: str
    name: str


NOBODY: Final = Person("", "")
_person: ContextVar[Person] = ContextVar("person", default=NOBODY)


def person() -> Person:
    """For whom this task works."""
    return _person.get()


@contextmanager
def on_behalf_of(somebody: Person) -> Iterator[None]:
    """What is done in this block is written down as done by this person."""
    token = _person.set(somebody)
    try:
        yield
    finally:
        _person.reset(token)


@dataclass(frozen=True, slots=True)
class Event:
    """What somebody did; `refused` says why it was not done."""

    at: datetime
    by: Person
    what: str
    refused: str = ""


class EventLog:
    """The last events of one machine, newest first."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=KEPT_EVENTS)

    def add(self, what: str, refused: str = "") -> None:
        """Write down what has just been done, or tried, by whom this task works for."""
        self._events.appendleft(Event(datetime.now(UTC), person(), what, refused))

    def latest(self, count: int) -> list[Event]:
        """At most `count` events, the newest first."""
        return list(islice(self._events, count))
