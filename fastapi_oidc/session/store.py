"""The store under everything that is kept: values under keys, read together, replaced atomically.

Every rule (who may refresh, a later generation wins, revocations merge) is a pure function that
`Store.move` applies, whatever the kind of store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

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

    async def move(self, key: str, change: Change, *, known: bytes | None = None) -> bytes:
        """Replace the value by the result of `change`, atomically; the value that is stored then.

        `known` is the value that the caller has seen last. If it is still the value, one command is
        enough. `change` may be called several times, also with its own result, after a lost reply.
        """
        before, after = known, None if known is None else change(known, 0.0)
        if after is None:  # nothing to write is known yet: ask for the value and its age
            before, after = None, Cell(b"", 0)
        while (found := await self.swap(key, before, after)) is not None:
            before, after = found.value, change(*found)
            if after is None:
                return before
        return after.value

    async def aclose(self) -> None:  # noqa: B027 - a default
        """Close the store's own connections. A later call may open new ones."""
