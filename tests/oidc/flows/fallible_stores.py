"""A store in memory that can be down."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi_oidc import Clock, MemoryStore
from fastapi_oidc.session.store import Cell, Stored
from tests.oidc.flows.steps import stores_of
from tests.oidc.world import Time, World, make_world

READ: Final = frozenset({"read"})
WRITTEN: Final = frozenset({"swap"})


@dataclass(slots=True)
class Outage:
    """Whether the stores that share it are down, and with which of their methods."""

    is_down: bool = False
    failing: frozenset[str] = READ | WRITTEN
    error: type[BaseException] = ConnectionError

    def require(self, method: str) -> None:
        if self.is_down and method in self.failing:
            raise self.error("down")


class FallibleStore(MemoryStore):
    """A store whose methods raise ConnectionError in an outage."""

    def __init__(self, outage: Outage, clock: Clock | None = None) -> None:
        super().__init__(clock=clock or Clock())
        self.outage = outage

    async def read(self, keys: Sequence[str], /) -> Sequence[bytes]:
        self.outage.require("read")
        return await super().read(keys)

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        self.outage.require("swap")
        return await super().swap(key, before, after)


def fallible(mode: str, time: Time) -> tuple[Outage, dict[str, Any]]:
    """The outage of what keeps sessions in this mode ("cookie" or "store"), and the options of an
    `OIDC` object with it."""
    outage = Outage()
    return outage, stores_of(mode, FallibleStore(outage, Clock(read=time)))


def fallible_world(mode: str, **options: Any) -> tuple[World, Outage]:
    """A world whose sessions are kept in what can be down."""
    time = Time()
    outage, stores = fallible(mode, time)
    return make_world(time=time, **stores, **options), outage
