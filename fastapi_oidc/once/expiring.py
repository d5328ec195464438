"""A dictionary whose entries end; no call pays for more than a few entries that have ended."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from threading import RLock
from typing import Final, Generic, TypeVar, overload

from fastapi_oidc.clock import Clock

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Default = TypeVar("Default")

_PER_WRITE: Final = 4
"""How many ended entries a write removes: more than one, so that a write never falls behind."""


_SPARE_SECONDS: Final = 100


class Expiring(Generic[Key, Value]):
    """Keeps each value until the second it was given, by `clock`.

    With `max_entries` the entry that would end first makes room for a new one, of several that end
    in one second the one that was written first; without, there is no limit. Reading costs as much
    as a dictionary, writing as much as a heap. Threads may share it: an endpoint that is no
    coroutine runs in one of its own.
    """

    def __init__(self, clock: Clock, *, max_entries: int | None = None) -> None:
        self._clock, self._max_entries = clock, max_entries
        self._entries: dict[Key, tuple[int, Value]] = {}
        # The keys that end in each second, and these seconds, some twice or without keys any more.
        self._keys: dict[int, dict[Key, None]] = {}
        self._seconds: list[int] = []
        self._writing = RLock()

    def __len__(self) -> int:
        """How many entries there are, with those that ended and were not removed yet."""
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return self._clock.now() < self.ends(key)

    @overload
    def get(self, key: Key) -> Value | None: ...

    @overload
    def get(self, key: Key, default: Default) -> Value | Default: ...

    def get(self, key: Key, default: Default | None = None) -> Value | Default | None:
        """The value, unless it has ended."""
        entry = self._entries.get(key)
        return default if entry is None or self._clock.read() >= entry[0] else entry[1]

    def ends(self, key: Key) -> int:
        """The second in which the entry ends; 0 when there is none."""
        entry = self._entries.get(key)
        return 0 if entry is None else entry[0]

    def set(self, key: Key, value: Value, *, ends: int) -> None:
        """Keeps `value` until the second `ends`, in place of what was there."""
        with self._writing:
            self._leave(key)
            self._enter(key, ends)
            self._entries[key] = (ends, value)
            self.prune(_PER_WRITE)
            if self._max_entries is not None and len(self._entries) > self._max_entries:
                self._remove_first()

    def pop(self, key: Key) -> Value | None:
        """Forgets the entry; its value, unless it has ended."""
        with self._writing:
            value = self.get(key)
            self._leave(key)
            self._entries.pop(key, None)
            return value

    def prune(self, at_most: int) -> None:
        """Removes entries that have ended; `at_most`."""
        now = self._clock.now()
        with self._writing:
            for _ in range(at_most):
                if not self._has_ended(now):
                    return
                self._drop_first()

    def make_room(self, limit: int, *, steps: int) -> bool:
        """Whether there are fewer entries than `limit`, after removing as few as that takes.

        Only what has ended is removed, in so many `steps` at the most.
        """
        now = self._clock.now()
        with self._writing:
            for _ in range(steps):
                if len(self._entries) < limit or not self._has_ended(now):
                    break
                self._drop_first()
            return len(self._entries) < limit

    def _has_ended(self, now: int) -> bool:
        """Whether the first second is over."""
        return bool(self._seconds) and now >= self._seconds[0]

    def _enter(self, key: Key, ends: int) -> None:
        if ends not in self._keys:
            # A plain dictionary finds its first key by walking over all that left before it; which
            # of those that have ended goes first is all the same, and it takes 50 bytes less.
            self._keys[ends] = {} if self._max_entries is None else OrderedDict()
            heappush(self._seconds, ends)
        self._keys[ends][key] = None

    def _leave(self, key: Key) -> None:
        entry = self._entries.get(key)
        if entry is not None:
            keys = self._keys[entry[0]]
            del keys[key]
            if not keys:
                del self._keys[entry[0]]
                self._forget_seconds()

    def _forget_seconds(self) -> None:
        """Seconds without keys are at most as many as those with some, and a few."""
        if len(self._seconds) > 2 * len(self._keys) + _SPARE_SECONDS:
            self._seconds = list(self._keys)
            heapify(self._seconds)

    def _remove_first(self) -> None:
        while not self._drop_first():
            pass

    def _drop_first(self) -> bool:
        """Whether the first second had an entry, which is removed; else the second is."""
        second = self._seconds[0]
        keys = self._keys.get(second)
        if keys is None:
            heappop(self._seconds)
            return False
        gone = keys.popitem(last=False) if isinstance(keys, OrderedDict) else keys.popitem()
        del self._entries[gone[0]]
        if not keys:
            del self._keys[second]
        return True
