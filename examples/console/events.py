"""Events: changes to machines, and refused attempts, with their users."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from starlette.types import Scope

from examples.console.failures import FAILURES, Failure, failed
from examples.console.records import Event, Person, Records, RecordsError, Search

NOBODY: Final = Person("", "")
_person: ContextVar[Person] = ContextVar("person", default=NOBODY)
_address: ContextVar[str] = ContextVar("address", default="")


def person() -> Person:
    """The user for whom this task works."""
    return _person.get()


def address() -> str:
    """Where the request came from for which this task works, as the server says; else empty."""
    return _address.get()


def work_at(scope: Scope) -> None:
    """Begins a request: what it does is recorded with its client's address, and as nobody's.

    The task of a request may begin with what another one of its connection has set.
    """
    _address.set((scope.get("client") or ("", 0))[0])
    work_for(NOBODY)


def work_for(somebody: Person) -> None:
    """Records events of this task from now on as those of this person."""
    _person.set(somebody)


@contextmanager
def on_behalf_of(somebody: Person) -> Iterator[None]:
    """Records events in this block as those of this person."""
    token = _person.set(somebody)
    try:
        yield
    finally:
        _person.reset(token)


class Done(NamedTuple):
    """What was done, with details; `machine` is the id of a machine that was made."""

    what: str
    detail: str = ""
    machine: str = ""


Act: TypeAlias = Callable[[], Awaitable[Done]]


async def recorded(log: EventLog, verb: str, act: Act) -> Failure | None:
    """Does what the current user wants, recorded before and after; returns why it was not done.

    `verb` completes "Wants to …".
    """
    try:
        event = await log.begin(f"Wants to {verb}.")
    except RecordsError:
        return Failure(503, "Nothing was done: it could not be recorded. Is the disk full?")
    done, refused = Done(f"Tried to {verb}."), "It was cut off."
    try:
        done, refused = await act(), ""
    except FAILURES as error:
        failure = failed(error)
        refused = failure.why
        return failure
    finally:
        await log.finish(event, done, refused)
    return None


class EventLog:
    """The events of one machine."""

    def __init__(self, machine: str, records: Records, key: str = "") -> None:
        self._machine, self._key = machine, key or machine
        self._records = records

    async def add(self, what: str, refused: str = "", *, detail: str = "") -> None:
        """Record an action or an attempt of the current user."""
        with suppress(sqlite3.Error):  # it is logged
            await asyncio.wrap_future(self._records.add_event(self._event(what, refused, detail)))

    async def begin(self, what: str) -> int:
        """Record what the current user wants. Raises RecordsError: then it may not be done."""
        return await self._records.begin_event(self._event(what))

    async def finish(self, event: int, done: Done, refused: str) -> None:
        """Record what came of it."""
        what, detail, machine = done
        stored = self._records.finish_event(event, what, refused, machine or self._key, detail)
        with suppress(sqlite3.Error):  # it is logged
            await asyncio.shield(asyncio.wrap_future(stored))

    def _event(self, what: str, refused: str = "", detail: str = "") -> Event:
        return Event(
            datetime.now(UTC),
            by := person(),
            what,
            refused,
            self._machine,
            detail,
            machine_id=self._key,
            address=address() if by.sub else "",
        )

    def latest(self, count: int, *, calls: bool = False) -> list[Event]:
        """At most `count` events, the newest first; with those of the guest's `calls` of APIs."""
        return self._records.events(Search(machine_id=self._key, calls=calls), count)

    def last_done(self, begin: datetime | None = None) -> Event | None:
        """The newest event since `begin` that was not refused."""
        search = Search(machine_id=self._key, begin=begin, calls=False)
        events = self._records.events(search, 50)
        return next((event for event in events if not event.refused and not event.pending), None)
