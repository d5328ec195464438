"""A pool of named items: created when first needed, closed when least recently used."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from fastapi_oidc.concurrency import SingleFlight

Plan = TypeVar("Plan")
Item = TypeVar("Item")

_log = logging.getLogger("fastapi_oidc.configuration")


@dataclass(eq=False, slots=True)
class _Lent(Generic[Plan, Item]):
    """One item and the number of blocks that use it."""

    name: str
    plan: Plan
    item: Item
    users: int = 0
    is_retired: bool = False
    is_ending: bool = False


class Pool(Generic[Plan, Item]):
    """Lends one item for each name; `create` makes it from its plan.

    At most `maximum` unused items stay open; beyond that, the least recently used one is closed. An
    item whose plan has changed is closed as soon as it is unused. A new item of the same name is
    created only after the old one is closed.
    """

    def __init__(
        self,
        create: Callable[[Plan], Item],
        close: Callable[[Item], Awaitable[None]],
        *,
        maximum: int,
    ) -> None:
        self._create, self._close, self._maximum = create, close, maximum
        self._open: OrderedDict[str, _Lent[Plan, Item]] = OrderedDict()
        self._ending: set[_Lent[Plan, Item]] = set()
        self._closings: SingleFlight[_Lent[Plan, Item], None] = SingleFlight()

    def __len__(self) -> int:
        return len(self._open)

    @asynccontextmanager
    async def lent(self, name: str, plan: Plan) -> AsyncIterator[Item]:
        """The item of `name`; it stays open within the block. Raises what `create` raises."""
        lent = self._current(name, plan)
        while lent is None:
            await self._ended(name)
            # Another task that waited for this name may have created the item meanwhile.
            lent = self._current(name, plan) or self._made(name, plan)
        lent.users += 1
        self._shrink()
        try:
            yield lent.item
        finally:
            lent.users -= 1
            if lent.is_retired and not lent.users:
                self._end(lent)
            self._shrink()

    async def aclose(self) -> None:
        """Close every item; the pool can be used again."""
        for lent in [*self._open.values()]:
            self._retire(lent)
            self._end(lent)
        while self._ending:
            await self._until_closed(next(iter(self._ending)))

    def _current(self, name: str, plan: Plan) -> _Lent[Plan, Item] | None:
        lent = self._open.get(name)
        if lent is None:
            return None
        if lent.plan != plan:
            self._retire(lent)
            return None
        self._open.move_to_end(name)
        return lent

    def _made(self, name: str, plan: Plan) -> _Lent[Plan, Item] | None:
        """A new item; None while an old one of this name is being closed."""
        if any(each.name == name for each in self._ending):
            return None
        lent = self._open[name] = _Lent(name, plan, self._create(plan))
        return lent

    def _shrink(self) -> None:
        idle = [lent for lent in self._open.values() if not lent.users]
        for lent in idle[: max(0, len(idle) - self._maximum)]:
            self._retire(lent)

    def _retire(self, lent: _Lent[Plan, Item]) -> None:
        """Stop lending this item."""
        del self._open[lent.name]
        lent.is_retired = True
        if not lent.users:
            self._end(lent)

    def _end(self, lent: _Lent[Plan, Item]) -> None:
        if not lent.is_ending:
            lent.is_ending = True
            self._ending.add(lent)
            self._closings.start(lent, partial(self._closed, lent))

    async def _ended(self, name: str) -> None:
        """Wait until no item of this name is being closed."""
        while lent := next((each for each in self._ending if each.name == name), None):
            await self._until_closed(lent)

    async def _until_closed(self, lent: _Lent[Plan, Item]) -> None:
        """Wait until the item is closed, or close it here if the closing event loop is gone."""
        await self._closings.run(lent, partial(self._closed, lent))

    async def _closed(self, lent: _Lent[Plan, Item]) -> None:
        try:
            await self._close(lent.item)
        except Exception:
            _log.exception("closing %s failed", lent.name)
        finally:
            self._ending.discard(lent)
