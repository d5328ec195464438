"""A store in this process's memory: for development, tests and single-process services."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Final

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.store import Cell, Store, Stored
from fastapi_oidc.ttl_cache import TTLCache

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
                self._require_room(key)
                self._values.set(key, (after.value, now), expires_at=after.expires_at)
            else:
                self._values.pop(key)
            return None

    def _require_room(self, key: str) -> None:
        if self._evicts or len(self._values) < self._max_values or key in self._values:
            return
        self._values.remove_expired(REMOVALS_WHEN_FULL)
        if len(self._values) >= self._max_values:
            raise SessionError(
                Code.SESSION_STORE_UNAVAILABLE,
                f"the memory store holds {self._max_values} values and takes no more",
            )
