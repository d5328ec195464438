"""Stores in memory that can be down: whatever they are asked then raises."""

from __future__ import annotations

from typing import Any, Final

from fastapi_oidc import Clock, MemoryRevocationStore, MemorySessionStore
from tests.oidc.world import Time

READ: Final = frozenset({"get", "get_with_endings", "is_revoked", "ended_by"})
WRITTEN: Final = frozenset({"set", "replace", "delete", "revoke"})


class Fallible:
    """Down while `is_down`: every method in `failing`."""

    is_down = False
    failing = READ | WRITTEN

    def __getattribute__(self, name: str) -> Any:
        if name in READ | WRITTEN and self.is_down and name in self.failing:
            raise ConnectionError("down")
        return super().__getattribute__(name)


class FallibleSessionStore(Fallible, MemorySessionStore[Any]):
    """Sessions and endings."""


class FallibleRevocationStore(Fallible, MemoryRevocationStore):
    """Endings of sessions in cookies."""


def fallible(mode: str, time: Time) -> tuple[Fallible, dict[str, Any]]:
    """What keeps sessions in this mode ("cookie" or "store"), and the options that give it."""
    clock = Clock(read=time)
    if mode == "store":
        sessions = FallibleSessionStore(clock=clock)
        return sessions, {"session_store": sessions, "back_channel_logout_store": None}
    endings = FallibleRevocationStore(clock=clock)
    return endings, {"session_store": None, "back_channel_logout_store": endings}
