"""SQLite with one writer, which works from a queue, and readers beside it."""

from __future__ import annotations

import logging
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeAlias

BUSY_SECONDS: Final = 5.0
Write: TypeAlias = Callable[[sqlite3.Connection], int]


class Database:
    """A file that several processes may share; without a path it is a temporary one.

    Writes are stored in their order, those that wait together. What is stored survives a kill and a
    power cut. Reads wait for no write. Raises OSError and sqlite3.Error if `path` cannot be used.
    """

    def __init__(self, path: Path | None, schema: str) -> None:
        self._folder = None if path else tempfile.TemporaryDirectory(prefix="records-")
        self._path = path or Path(self._folder.name if self._folder else "", "records.sqlite3")
        self._waiting: SimpleQueue[tuple[Write, Future[int]]] = SimpleQueue()
        self._local, self._readers = threading.local(), list[sqlite3.Connection]()
        self._writer = self._opened()
        self._writer.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
        self._writer.executescript(schema)
        self._thread = ThreadPoolExecutor(1, "records")

    def _opened(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=BUSY_SECONDS, check_same_thread=False)
        database.row_factory = sqlite3.Row
        return database

    def write(self, write: Write) -> Future[int]:
        """Queues a write; the future has its number, or the sqlite3.Error, once it is stored.

        It cannot be cancelled: what is queued is stored, also when nobody waits for it any more.
        """
        done: Future[int] = Future()
        done.set_running_or_notify_cancel()
        self._waiting.put((write, done))
        try:
            self._thread.submit(self._store)
        except RuntimeError as error:
            done.set_exception(sqlite3.ProgrammingError(str(error)))
        return done

    def read(self, query: str, values: Sequence[object]) -> list[Any]:
        """The rows of a query, of what is stored."""
        return self.reader().execute(query, values).fetchall()

    def reader(self) -> sqlite3.Connection:
        """The connection of this thread, which reads alone."""
        if not hasattr(self._local, "reader"):
            self._local.reader = self._opened()
            self._local.reader.execute("PRAGMA query_only = ON")
            self._readers.append(self._local.reader)
        found: sqlite3.Connection = self._local.reader
        return found

    def _store(self) -> None:
        """Stores what waits; the later turns of these writes find nothing to do."""
        batch = [self._waiting.get() for _ in range(self._waiting.qsize())]
        try:
            with self._writer:
                numbers = [write(self._writer) for write, _ in batch]
        except Exception:  # of one of them: each is tried alone
            for write, done in batch:
                self._store_one(write, done)
        else:
            for (_, done), number in zip(batch, numbers, strict=True):
                done.set_result(number)

    def _store_one(self, write: Write, done: Future[int]) -> None:
        try:
            with self._writer:
                done.set_result(write(self._writer))
        except Exception as error:
            logging.getLogger(__name__).exception("a record could not be written")
            is_known = isinstance(error, sqlite3.Error)
            done.set_exception(error if is_known else sqlite3.DataError(repr(error)))

    def close(self) -> None:
        """Stores what is queued, and closes the database."""
        self._thread.shutdown()
        for connection in (self._writer, *self._readers):
            connection.close()
        if self._folder is not None:
            self._folder.cleanup()
