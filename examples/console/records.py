"""The records in SQLite: events."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from examples.console.database import Database
from examples.console.settings import KEPT_DAYS, SettingsError

DAY_SECONDS: Final = 86_400
INDEXED: Final = 3
"""The characters from which on a text is found by the index."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, machine TEXT NOT NULL, sub TEXT NOT NULL,
    name TEXT NOT NULL, what TEXT NOT NULL, refused TEXT NOT NULL, detail TEXT NOT NULL,
    machine_id TEXT NOT NULL, pending INTEGER NOT NULL, times INTEGER NOT NULL,
    is_call INTEGER NOT NULL, address TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_of_machine ON events (machine_id, id);
CREATE INDEX IF NOT EXISTS acts_of_machine ON events (machine_id, id) WHERE NOT is_call;
CREATE INDEX IF NOT EXISTS events_by_name ON events (machine, id);
CREATE INDEX IF NOT EXISTS events_by_time ON events (at);
CREATE INDEX IF NOT EXISTS events_by_user ON events (sub, id);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
    what, refused, detail, content='events', content_rowid='id', tokenize='trigram'
);
CREATE TRIGGER IF NOT EXISTS words_added AFTER INSERT ON events BEGIN
    INSERT INTO words (rowid, what, refused, detail)
    VALUES (new.id, new.what, new.refused, new.detail);
END;
CREATE TRIGGER IF NOT EXISTS words_removed AFTER DELETE ON events BEGIN
    INSERT INTO words (words, rowid, what, refused, detail)
    VALUES ('delete', old.id, old.what, old.refused, old.detail);
END;
CREATE TRIGGER IF NOT EXISTS words_changed AFTER UPDATE OF what, refused, detail ON events BEGIN
    INSERT INTO words (words, rowid, what, refused, detail)
    VALUES ('delete', old.id, old.what, old.refused, old.detail);
    INSERT INTO words (rowid, what, refused, detail)
    VALUES (new.id, new.what, new.refused, new.detail);
END;
CREATE TABLE IF NOT EXISTS accesses (machine TEXT PRIMARY KEY, access TEXT NOT NULL);
"""


_NAME: Final = "SELECT name FROM events WHERE sub = :sub AND name != '' ORDER BY id DESC LIMIT 1"
"""The name that a user had last: what the library tells of a user has only the `sub`."""
_REPEATED: Final = (
    "DELETE FROM events WHERE id = (SELECT max(id) FROM events WHERE at > :at - 60"
    " AND machine_id = :machine_id AND sub = :sub AND address = :address AND what = :what"
    " AND refused = :refused) RETURNING times"
)


class RecordsError(Exception):
    """An action that cannot be recorded, and so may not be done."""


@dataclass(frozen=True, slots=True)
class Person:
    """The user of an event: `sub` distinguishes users of the same name."""

    sub: str
    name: str


@dataclass(frozen=True, slots=True)
class Event:
    """A user's action, or another event; `refused` says why it was not carried out.

    `machine` is the name that the machine had, and `machine_id` is its alone. A `pending` event is
    an action that was begun. `times` counts repeated refusals. `is_call`: the guest has called an
    API with the rights of this user. `address` is that of the client who has sent the request.
    """

    at: datetime
    by: Person
    what: str
    refused: str = ""
    machine: str = ""
    detail: str = ""
    id: int = 0
    machine_id: str = ""
    pending: bool = False
    times: int = 1
    is_call: bool = False
    address: str = ""


_EVENT_NAMES: Final = [one.name for one in fields(Event) if one.name not in ("at", "by", "id")]
_COLUMNS: Final = ["at", "sub", "name", *_EVENT_NAMES]
_ADD_EVENT: Final = f"INSERT INTO events ({', '.join(_COLUMNS)}) VALUES (:{', :'.join(_COLUMNS)})"  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class Search:
    """A search for events; empty fields are ignored.

    `person` is part of a name, or the whole `sub` or address; `text` is part of an event's text.
    `begin` and `end` are moments, `before` is the id from which a page of results continues. `seen`
    are the only machines whose events may be found. Without `calls`, those of guests are left out.
    """

    machine: str = ""
    machine_id: str = ""
    person: str = ""
    text: str = ""
    begin: datetime | None = None
    end: datetime | None = None
    only_refused: bool = False
    before: int | None = None
    seen: tuple[str, ...] | None = None
    calls: bool = True

    def conditions(self) -> Iterator[tuple[str, list[object]]]:
        """Parts of a WHERE clause with their values."""
        if self.machine:
            yield "machine = ?", [self.machine]
        if self.machine_id:
            yield "machine_id = ?", [self.machine_id]
        if self.person:
            yield "(? IN (sub, address) OR instr(lower(name), lower(?)))", [self.person] * 2
        if len(self.text) >= INDEXED:
            quoted = self.text.replace('"', '""').replace("\0", "")
            yield "id IN (SELECT rowid FROM words WHERE words MATCH ?)", [f'"{quoted}"']
        elif self.text:
            yield "instr(lower(what || ' ' || refused || ' ' || detail), lower(?))", [self.text]
        if self.begin:
            yield "at >= ?", [self.begin.timestamp()]
        if self.end:
            yield "at < ?", [self.end.timestamp()]
        if not self.calls:
            yield "NOT is_call", []
        if self.only_refused:
            yield "refused != ''", []
        if self.before is not None:
            yield "id < ?", [self.before]
        if self.seen is not None:
            yield f"machine IN ({', '.join('?' * len(self.seen))})", list(self.seen)


class Records:
    """Events, in a database that several processes may share.

    Records survive a kill of the process. A failed write, for example on a full disk, is only
    logged, except that of an action that is to be done. Raises SettingsError if `path` cannot be
    used.
    """

    def __init__(self, path: Path | None = None, kept_days: int = KEPT_DAYS) -> None:
        self._kept_days = kept_days
        try:
            self._database = Database(path, _SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise SettingsError(f"{path} cannot be used: {error}") from error

    @classmethod
    def in_folder(cls, folder: Path, kept_days: int = KEPT_DAYS) -> Self:
        """The records of a folder, which is created if needed."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"{folder} cannot be used: {error.strerror}") from error
        return cls(folder / "records.sqlite3", kept_days)

    def add_event(self, event: Event) -> Future[int]:
        """Record an event; a refusal that is repeated within a minute replaces it, and counts."""
        row = _row(event)

        def write(database: sqlite3.Connection) -> int:
            if (
                event.by.sub
                and not event.by.name
                and (known := database.execute(_NAME, row).fetchone())
            ):
                row["name"] = known["name"]
            if event.refused and (found := database.execute(_REPEATED, row).fetchone()):
                row["times"] = 1 + found["times"]
            return database.execute(_ADD_EVENT, row).lastrowid or 0

        return self._database.write(write)

    async def begin_event(self, event: Event) -> int:
        """Record an action before it is done, and return the id of its event.

        Raises RecordsError if it cannot be stored, for example on a full disk.
        """
        row = {**_row(event), "pending": 1}
        done = self._database.write(lambda one: one.execute(_ADD_EVENT, row).lastrowid or 0)
        try:
            return await asyncio.wrap_future(done)
        except sqlite3.Error as error:
            raise RecordsError(str(error)) from error

    def finish_event(
        self, event: int, what: str, refused: str, machine_id: str, detail: str = ""
    ) -> Future[int]:
        """Record what came of an action that was begun."""
        names = "what = ?, refused = ?, machine_id = ?, detail = ?, pending = 0"
        statement = f"UPDATE events SET {names} WHERE id = ?"  # noqa: S608 - constants
        return self._write(statement, [(what, refused, machine_id, detail, event)])

    def give_up_pending(self, older: float = 0) -> None:
        """Record of actions that are begun, and `older` than these seconds, that the console ended.

        They were begun by another process, which may still run where several share the database.
        """
        statement = "UPDATE events SET refused = ?, pending = 0 WHERE pending AND at <= ?"
        self._write(statement, [("The console ended meanwhile.", time.time() - older)])

    def events(self, search: Search, most: int) -> list[Event]:
        """At most `most` events, the newest first."""
        parts = list(search.conditions())
        where = " AND ".join(part for part, _ in parts) or "1"
        values = [value for _, values in parts for value in values]
        # The conditions are constants of this file; user input is passed as parameters.
        query = f"SELECT * FROM events WHERE {where} ORDER BY id DESC LIMIT ?"  # noqa: S608
        return [_event(row) for row in self._database.read(query, [*values, most])]

    def keep_access(self, machine: str, access: str) -> None:
        """Record which access a machine has."""
        self._write("INSERT OR REPLACE INTO accesses VALUES (?, ?)", [(machine, access)])

    def forget_access(self, machine: str) -> None:
        """Record that a machine has none."""
        self._write("DELETE FROM accesses WHERE machine = ?", [(machine,)])

    def accesses(self) -> dict[str, str]:
        """What was recorded last, by machine."""
        rows = self._database.read("SELECT * FROM accesses", [])
        return {row["machine"]: row["access"] for row in rows}

    def tidy(self) -> None:
        """Delete events that are too old; give up actions that never ended."""
        before = time.time() - self._kept_days * DAY_SECONDS
        self._write("DELETE FROM events WHERE at < ?", [(before,)])
        self.give_up_pending(older=DAY_SECONDS)

    def settle(self) -> None:
        """Waits until everything is stored that was recorded before."""
        self._database.write(lambda database: 0).result()

    def close(self) -> None:
        """Store what was recorded, and close the database."""
        self._database.close()

    def _write(self, statement: str, rows: Sequence[Sequence[object]]) -> Future[int]:
        return self._database.write(lambda one: one.executemany(statement, rows).rowcount)


def _event(row: sqlite3.Row) -> Event:
    members = {name: row[name] for name in (*_EVENT_NAMES, "id")}
    members |= {name: bool(row[name]) for name in ("pending", "is_call")}
    by = Person(row["sub"], row["name"])
    return Event(moment(row["at"]), by, **members)


def _row(event: Event) -> dict[str, object]:
    who = {"sub": event.by.sub, "name": event.by.name}
    return {
        "at": event.at.timestamp(),
        **who,
        **{name: getattr(event, name) for name in _EVENT_NAMES},
    }


def moment(seconds: float) -> datetime:
    """The moment of a number of seconds since the epoch, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
