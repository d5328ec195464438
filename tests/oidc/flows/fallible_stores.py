"""Stores in memory that can be down: each method in `failing` raises ConnectionError then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fastapi_oidc import Clock, MemoryRefreshLock, MemoryRevocationStore, MemorySessionStore
from tests.oidc.world import Time

READ: Final = frozenset({"get", "find", "ended_by", "stamps"})
WRITTEN: Final = frozenset({"set", "replace", "delete", "touch", "revoke"})
RECORDS: Final = frozenset({"take", "advance", "look"})


@dataclass(slots=True)
class Outage:
    """Whether the stores that share it are down."""

    is_down: bool = False
    failing: frozenset[str] = READ | WRITTEN | RECORDS


class _Fallible:
    outage: Outage

    def __getattribute__(self, name: str) -> Any:
        if name in READ | WRITTEN | RECORDS:
            outage = super().__getattribute__("outage")
            if outage.is_down and name in outage.failing:
                raise ConnectionError("down")
        return super().__getattribute__(name)


class FallibleRevocationStore(_Fallible, MemoryRevocationStore):
    """Revocation records."""

    def __init__(self, outage: Outage, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.outage = outage


class FallibleRefreshLock(_Fallible, MemoryRefreshLock):
    """Refresh records."""

    def __init__(self, outage: Outage, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.outage = outage


class FallibleSessionStore(_Fallible, MemorySessionStore[Any]):
    """Sessions, revocation records and refresh records."""

    def __init__(self, outage: Outage, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.outage = outage
        self._revocations = FallibleRevocationStore(outage, clock)
        self._records = FallibleRefreshLock(outage, clock)


def fallible(mode: str, time: Time) -> tuple[Outage, dict[str, Any]]:
    """The outage of what keeps sessions in this mode ("cookie" or "store"), and the options of an
    `OIDC` object with it."""
    outage, clock = Outage(), Clock(read=time)
    if mode == "store":
        sessions = FallibleSessionStore(outage, clock)
        return outage, {"session_store": sessions, "back_channel_logout_store": None}
    revocations = FallibleRevocationStore(outage, clock)
    return outage, {"session_store": None, "back_channel_logout_store": revocations}
