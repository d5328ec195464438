"""Stores that an application gives: its own get, set and delete, or a URL."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeVar
from weakref import WeakValueDictionary

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import called
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
        try:
            return _JSON.validate_json(text)
        except ValidationError:  # which quotes the text
            raise ValueError("the text is no sealed session") from None


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
        self._locks: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str], asyncio.Lock] = (
            WeakValueDictionary()
        )

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[Result]], /
    ) -> Result:
        """See `RefreshLock.run_exclusive`."""
        key = (asyncio.get_running_loop(), session_id)
        async with self._locks.setdefault(key, asyncio.Lock()):
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
        session = await self._call(self._store.get, key)
        now = self._clock.read()
        if not isinstance(session, SealedSession | None):
            kind = type(session).__name__
            said = f"SessionStore.get returned {kind}, not SealedSession or None"
            raise SessionError(Code.SESSION_STORE_UNAVAILABLE, said)
        if session is None or session.expires_at <= now:
            return Stored(b"", 0.0)
        return Stored(session.content, now - session.written_at)

    async def _set(self, key: str, after: Cell) -> None:
        if not after.value:
            await self._call(self._store.delete, key)
            return
        session = SealedSession(after.value, after.expires_at, self._clock.read())
        await self._call(self._store.set, key, session)

    async def _call(
        self, method: Callable[..., Result | Awaitable[Result]], *arguments: object
    ) -> Result:
        """The result of a method of the application. What was begun ends before the lock does."""
        return await called(method, *arguments, may_be_abandoned=False)


def store_of(
    value: object, clock: Clock, *, lock: object = None, option: str = "session_store"
) -> Store:
    """The store that `value`, an option's argument, stands for.

    `value` is a store, a `SessionStore` of the application, for which `lock` is, a URL, or
    "memory". Raises ConfigurationError (configuration.invalid) for anything else, and
    ModuleNotFoundError if the extra that the URL needs is not installed.
    """
    if not isinstance(lock, RefreshLock | None):
        raise misconfigured(f"refresh_lock is {_kind(lock)}; give an instance of RefreshLock")
    if isinstance(value, SessionStore):
        return ExclusiveStore(value, lock, clock=clock)
    if lock is not None:
        raise misconfigured(
            "refresh_lock is for a SessionStore of your own; other stores need none"
        )
    if isinstance(value, Store):
        return value
    if value == "memory":
        return MemoryStore(clock=clock)
    store = _store_at(value) if isinstance(value, str) else None
    if store is None:
        raise misconfigured(
            f"{option} is {_kind(value)}; give an instance of Store or SessionStore, the URL of a "
            'Redis, PostgreSQL or SQLite database, or "memory"'
        )
    return store


def _store_at(url: str) -> Store | None:
    """The store at `url`; None if its scheme is unknown."""
    scheme = url.partition("://")[0].lower().partition("+")[0] if "://" in url else ""
    if scheme in ("redis", "rediss", "unix"):
        from fastapi_oidc.session.redis import RedisStore

        return RedisStore(url)
    if scheme in ("postgresql", "sqlite"):
        from fastapi_oidc.session.sql import SQLStore

        return SQLStore(url, creates_tables=True)
    return None


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "a text"  # which may be a URL with a password
    if inspect.isclass(value):
        return f"the class {value.__name__}, not an instance of it"
    return f"an instance of {type(value).__name__}"
