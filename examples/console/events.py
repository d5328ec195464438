"""Events: changes to machines, and refused attempts, with their users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

from examples.console.records import Event, Person, Records, Search

NOBODY: Final = Person("", "")
_person: ContextVar[Person] = ContextVar("person", default=NOBODY)


def person() -> Person:
    """The user for whom this task works."""
    return _person.get()


@contextmanager
def on_behalf_of(somebody: Person) -> Iterator[None]:
    """Records events in this block as those of this person."""
    token = _person.set(somebody)
    try:
        yield
    finally:
        _person.reset(token)


class EventLog:
    """The events of one machine."""

    def __init__(self, machine: str, records: Records) -> None:
        self._machine = machine
        self._records = records

    def add(self, what: str, refused: str = "", *, detail: str = "") -> None:
        """Record an action or an attempt of the current user."""
        event = Event(datetime.now(UTC), person(), what, refused, self._machine, detail)
        self._records.add_event(event)

    def latest(self, count: int) -> list[Event]:
        """At most `count` events, the newest first."""
        return self._records.events(Search(machine=self._machine), count)

    def last_done(self, begin: datetime | None = None) -> Event | None:
        """The newest event since `begin` that was not refused."""
        search = Search(machine=self._machine, begin=begin)
        events = self._records.events(search, 50)
        return next((event for event in events if not event.refused), None)
