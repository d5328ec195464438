"""Stores that an application gives: its own get, set and delete, or a URL."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeVar
from weakref import WeakValueDictionary

from pydantic import ConfigDict, TypeAdapter

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import PerLoop, called
from fastapi_oidc.errors import Code, SessionError, misconfigured
from fastapi_oidc.session.store import Cell, MemoryStore, Store, Stored

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SealedSession:
    """What a `SessionStore` stores: content that only this library reads, and two times.

    Times are seconds since the epoch. The store may delete the session after `expires_at`. It can
    be pickled, and `to_json` and `from_json` are for databases that take text.
    """

    __pydantic_config__: ClassVar = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    content: bytes = field(repr=False)
    expires_at: int
    written_at: float

    def to_json(self) -> str:
        """The session as a JSON object of `content` in base64 and the times."""
        return _JSON.dump_json(self).decode()

    @staticmethod
    def from_json(text: str | bytes) -> SealedSession:
        """The session that `to_json` returned as `text`. Raises ValueError for another text."""
        return _JSON.validate_json(text)


_JSON: Final = TypeAdapter(SealedSession)


class SessionStore(ABC):
    """Stores sessions where the application keeps them. The methods may be async or plain sync.

    `id` is an opaque text of at most 200 printable ASCII characters. A session never changes: a
    dictionary may hold and return the very object that it was given. An exception of a method
    leads to a 503 response and signs nobody out.
    """

    @abstractmethod
    def get(self, id: str, /) -> Awaitable[SealedSession | None] | SealedSession | None:
        """The session that was last set under `id`, None without one."""

    @abstractmethod
    def set(self, id: str, session: SealedSession, /) -> Awaitable[None] | None:
        """Store `session` under `id`; it replaces an earlier one."""

    @abstractmethod
    def delete(self, id: str, /) -> Awaitable[None] | None:
        """Delete the session under `id`; an unknown `id` is not an error."""

    async def aclose(self) -> None:  # noqa: B027 - a default
        """Close the store's own connections. A later call may open new ones."""


class RefreshLock(ABC):
    """Excludes other processes while one of them changes a session."""

    @abstractmethod
    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[Result]], /
    ) -> Result:
        """The result of `operation()`, which runs alone for its `session_id` in all processes.

        Raises what `operation` raises. If the lock cannot be acquired, raises any other exception.
        """

    async def aclose(self) -> None:  # noqa: B027 - a default
        """Close the lock's own connections. A later call may open new ones."""


class LockOfThisLoop(RefreshLock):
    """Excludes other tasks of the same event loop."""

    def __init__(self) -> None:
        self._locks: PerLoop[WeakValueDictionary[str, asyncio.Lock]] = PerLoop(WeakValueDictionary)

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[Result]], /
    ) -> Result:
        """See `RefreshLock.run_exclusive`."""
        async with self._locks.here().setdefault(session_id, asyncio.Lock()):
            return await operation()


class ExclusiveStore(Store):
    """A store made of an application's `SessionStore` and `RefreshLock`.

    A value is read, compared and replaced within the lock. Without a lock this is atomic for the
    tasks of one event loop alone: of two processes that change a session at the same time, the one
    that writes later wins, so a refresh may present a refresh token twice and undo a sign-out. One
    process at a time needs no lock, nor do sessions that always lead to the same process. Ages are
    by the clock of each process.
    """

    def __init__(
        self, store: SessionStore, lock: RefreshLock | None = None, *, clock: Clock | None = None
    ) -> None:
        self._store, self._lock = store, lock or LockOfThisLoop()
        self._clock = clock or Clock()

    async def read(self, keys: Sequence[str], /) -> Sequence[bytes]:
        """See `Store.read`; the store is asked for all keys concurrently."""
        return [found.value for found in await asyncio.gather(*map(self._find, keys))]

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        """See `Store.swap`."""
        if before is None:
            return await self._find(key)

        async def compare_and_set() -> tuple[Stored | None]:
            found = await self._find(key)
            if found.value != before:
                return (found,)
            await self._set(key, after)
            return (None,)

        # A lock that loses the result of the operation raises here.
        (found,) = await self._lock.run_exclusive(key, compare_and_set)
        return found

    async def aclose(self) -> None:
        """Close the store and the lock."""
        await self._store.aclose()
        await self._lock.aclose()

    async def _find(self, key: str) -> Stored:
        session = await called(self._store.get, key, may_be_abandoned=False)
        now = self._clock.read()
        if not isinstance(session, SealedSession | None):
            kind = type(session).__name__
            said = f"SessionStore.get returned {kind}, not SealedSession or None"
            raise SessionError(Code.SESSION_STORE_UNAVAILABLE, said)
        if session is None or session.expires_at <= now:
            return Stored(b"", 0.0)
        return Stored(session.content, now - session.written_at)

    async def _set(self, key: str, after: Cell) -> None:
        # What was begun ends before the lock does.
        if after.value:
            session = SealedSession(after.value, after.expires_at, self._clock.read())
            await called(self._store.set, key, session, may_be_abandoned=False)
        else:
            await called(self._store.delete, key, may_be_abandoned=False)


def store_of(
    value: object, clock: Clock, *, lock: object = None, option: str = "session_store"
) -> Store:
    """The store that `value`, an option's argument, stands for.

    `value` is a store, a `SessionStore` of the application, for which `lock` is, a URL, or
    "memory". Raises ConfigurationError (configuration.invalid) for anything else, and
    ModuleNotFoundError if the extra that the URL needs is not installed.
    """
    if not isinstance(lock, RefreshLock | None):
        raise misconfigured(f"refresh_lock is an instance of RefreshLock, not {_kind(lock)}")
    if isinstance(value, SessionStore):
        return ExclusiveStore(value, lock, clock=clock)
    if isinstance(value, Store):
        return value
    scheme = value.partition("://")[0].partition("+")[0].lower() if isinstance(value, str) else ""
    if scheme == "memory":
        return MemoryStore(clock=clock)
    if scheme in ("redis", "rediss", "unix"):
        from fastapi_oidc.session.redis import RedisStore

        return RedisStore(str(value))
    if scheme in ("postgresql", "sqlite"):
        from fastapi_oidc.session.sql import SQLStore

        return SQLStore(str(value))
    raise misconfigured(
        f"{option} is an instance of Store or SessionStore, the URL of a Redis, PostgreSQL or "
        f'SQLite database, or "memory", not {_kind(value)}'
    )


def _kind(value: object) -> str:
    """What `value` is; a text may be a URL with a password."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
