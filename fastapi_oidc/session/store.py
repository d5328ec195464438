"""The store under everything that is kept: values under keys, read together, replaced atomically.

Every rule (who may refresh, a later generation wins, revocations merge) is a pure function that
`Store.move` applies, whatever the kind of store.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from threading import Lock
from traceback import extract_tb
from typing import Final, NamedTuple, TypeAlias, TypeVar

from fastapi_oidc.clock import Clock, TTLCache
from fastapi_oidc.concurrency import is_cancelled
from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.protocol.refusal import MAX_VALUE, cleaned

Result = TypeVar("Result")


async def ask_store(work: Awaitable[Result], address: str = "", doing: str = "") -> Result:
    """The result of `work`, which asks a store; its exceptions are session.store_unavailable (503).

    So is a CancelledError that a store raises although nobody has cancelled the task. Errors of
    this library pass unchanged. A store of ours has an `address`, without user and password.
    """
    try:
        return await work
    except BaseException as error:
        is_of_the_store = isinstance(error, asyncio.CancelledError) and not is_cancelled()
        is_outage = isinstance(error, Exception) or is_of_the_store
        if isinstance(error, OIDCError) or not is_outage:
            raise
        explanation = _explained(error, address, doing)
        raise SessionError(Code.SESSION_STORE_UNAVAILABLE, explanation) from error


def _explained(error: BaseException, address: str, doing: str) -> str:
    """What was asked, where, and why it failed. The text of an application's error may be secret.

    So only the drivers of our own stores are quoted. They do not quote the password in a URL.
    """
    name = type(error).__name__
    if not address:
        place = extract_tb(error.__traceback__)[-1]
        return f"the store raised {name} in {place.name}, line {place.lineno} of {place.filename}"
    said = getattr(error, "orig", None) or error  # SQLAlchemy adds the statement and its values
    text = cleaned(" ".join(str(said).split()), MAX_VALUE)
    return f"the store {address} could not {doing}: {name}" + (f": {text}" if text else "")


DEFAULT_TIMEOUT: Final = 5.0
"""Seconds for one command of a Redis or SQL store, including its wait for a connection."""


class Stored(NamedTuple):
    """The value under a key, b"" without one.

    `age` is the number of seconds since the value was written, by the clock of the store. It is
    negative if that clock has been set back since.
    """

    value: bytes
    age: float


class Cell(NamedTuple):
    """A value to store, which the store may delete after `expires_at` (seconds since the epoch).

    The value b"" deletes the key.
    """

    value: bytes
    expires_at: int


class Moved(NamedTuple):
    """The value that is stored after `Store.move`, and those of its `others`."""

    value: bytes
    others: Sequence[bytes]


Change: TypeAlias = Callable[[bytes, float], Cell | None]
"""A pure function: the value and its age -> the next value, None to leave it as it is."""


class Store(ABC):
    """Stores values under keys. A subclass implements `read` and `swap`.

    Keys are texts of at most 200 printable ASCII characters, and values are bytes. An exception of
    a method leads to a 503 response and signs nobody out. A call may be repeated after its reply
    was lost.
    """

    is_in_memory: bool = False
    """Whether only this process has the values."""

    @abstractmethod
    async def read(self, keys: Sequence[str], /) -> Sequence[bytes]:
        """The value under each key, b"" without one, in one round trip."""

    @abstractmethod
    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        """Store `after` if the value is `before`; the result is None.

        Otherwise, and always if `before` is None, store nothing and return the value that was
        found. `before` is b"" for a key without a value.
        """

    async def swap_and_read(
        self, key: str, before: bytes | None, after: Cell, others: Sequence[str], /
    ) -> tuple[Stored | None, Sequence[bytes]]:
        """Like `swap`; also the values of `others`, at the moment of the swap or later.

        A subclass may do both in one round trip.
        """
        found = await self.swap(key, before, after)
        return found, await self.read(others) if others else ()

    async def move(
        self, key: str, change: Change, *, known: bytes | None = None, others: Sequence[str] = ()
    ) -> Moved:
        """Replace the value by the result of `change`, atomically; read `others` then or later.

        `known` is the value that the caller has seen last. If it is still the value, one command is
        enough. `change` may be called several times, also with its own result, after a lost reply.
        """
        before, after = known, None if known is None else change(known, 0.0)
        if after is None:  # nothing to write is known yet: ask for the value and its age
            before, after = None, Cell(b"", 0)
        while True:
            found, values = await self.swap_and_read(key, before, after, others)
            if found is None:
                return Moved(after.value, values)
            before, after = found.value, change(*found)
            if after is None:
                return Moved(before, values)

    async def aclose(self) -> None:  # noqa: B027 - a default
        """Close the store's own connections. A later call may open new ones."""


REMOVALS_WHEN_FULL: Final = 1000
"""Maximum number of expired values that a full store removes for a new one."""


class MemoryStore(Store):
    """Values in memory, `max_values` at most; threads may share a store.

    A full store raises SessionError (session.store_unavailable) for a new key, so that nothing is
    lost. With `evicts`, it drops the value that expires first instead.
    """

    is_in_memory = True

    def __init__(
        self, *, clock: Clock | None = None, max_values: int = 100_000, evicts: bool = False
    ) -> None:
        self._clock = clock or Clock()
        self._max_values, self._evicts = max_values, evicts
        # With each value, the time when it was written.
        self._values: TTLCache[str, tuple[bytes, float]] = TTLCache(
            self._clock, max_entries=max_values if evicts else None
        )
        self._swapping = Lock()

    async def read(self, keys: Sequence[str], /) -> Sequence[bytes]:
        """See `Store.read`."""
        found = map(self._values.get, keys)
        return [b"" if entry is None else entry[0] for entry in found]

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        """See `Store.swap`."""
        with self._swapping:
            now = self._clock.read()
            value, written_at = self._values.get(key) or (b"", now)
            if value != before:
                return Stored(value, now - written_at)
            if after.value:
                if not (value or self._evicts):
                    self._require_room()
                self._values.set(key, (after.value, now), expires_at=after.expires_at)
            else:
                self._values.pop(key)
            return None

    def _require_room(self) -> None:
        if len(self._values) < self._max_values:
            return
        self._values.remove_expired(REMOVALS_WHEN_FULL)
        if len(self._values) >= self._max_values:
            raise SessionError(
                Code.SESSION_STORE_UNAVAILABLE,
                f"the memory store holds {self._max_values} values and takes no more",
            )
