"""Items are made once, lent to many, and closed when nobody uses them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from fastapi_oidc.pool import Pool
from tests.oidc.interleaving import Gate


@dataclass
class Things:
    """Makes texts of numbers, and notes what was made and closed."""

    made: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    gates: dict[str, Gate] = field(default_factory=dict)

    def make(self, plan: str) -> str:
        if plan == "wrong":
            raise ValueError(plan)
        self.made.append(plan)
        return plan

    async def close(self, item: str) -> None:
        if gate := self.gates.get(item):
            await gate.passed()
        self.closed.append(item)
        if item == "broken":
            raise OSError(item)

    def pool(self, maximum: int = 2) -> Pool[str, str]:
        return Pool(self.make, self.close, maximum=maximum)


@pytest.fixture
def things() -> Things:
    return Things()


async def used(pool: Pool[str, str], name: str, plan: str | None = None) -> str:
    async with pool.lent(name, plan or name) as item:
        return item


async def settle() -> None:
    """Let tasks run that wait for nothing."""
    for _ in range(5):
        await asyncio.sleep(0)


@asynccontextmanager
async def lending(pool: Pool[str, str], *names: str) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for name in names:
            await stack.enter_async_context(pool.lent(name, name))
        yield


async def test_an_item_is_made_once_for_all_that_ask(things: Things) -> None:
    pool = things.pool()
    async with pool.lent("a", "a"):
        assert await asyncio.gather(*(used(pool, "a") for _ in range(3))) == ["a"] * 3
    assert things.made == ["a"]


async def test_the_least_recently_used_is_closed(things: Things) -> None:
    pool = things.pool()
    for name in ("a", "b", "a", "c"):
        await used(pool, name)
    await settle()
    assert (things.closed, len(pool)) == (["b"], 2)


async def test_what_is_used_is_not_closed(things: Things) -> None:
    pool = things.pool(maximum=1)
    async with lending(pool, "a", "b", "c"):
        await settle()
        assert (things.closed, len(pool)) == ([], 3)
    await settle()
    assert len(things.closed) == 2
    assert len(pool) == 1


async def test_another_plan_replaces_the_item(things: Things) -> None:
    pool = things.pool()
    async with pool.lent("a", "a1"):
        assert await used(pool, "a", "a2") == "a2"
        await settle()
        assert things.closed == []
    await settle()
    assert things.closed == ["a1"]
    assert await used(pool, "a", "a2") == "a2"
    assert things.made == ["a1", "a2"]


async def test_an_item_is_made_again_when_it_is_closed_and_once(things: Things) -> None:
    pool = things.pool(maximum=1)
    things.gates["a"] = gate = Gate()
    await used(pool, "a")
    await used(pool, "b")
    await gate.until_reached()
    waiting = [asyncio.create_task(used(pool, "a")) for _ in range(2)]
    await settle()
    assert things.made == ["a", "b"]
    gate.opened.set()
    assert await asyncio.gather(*waiting) == ["a", "a"]
    assert things.made.count("a") == 2


async def test_one_that_closes_slowly_holds_up_no_other(things: Things) -> None:
    pool = things.pool(maximum=1)
    things.gates["a"] = gate = Gate()
    await used(pool, "a")
    assert await used(pool, "b") == "b"
    await gate.until_reached()
    assert await used(pool, "c") == "c"
    gate.opened.set()
    await pool.aclose()


async def test_a_request_that_gives_up_while_it_waits_stops_nothing(things: Things) -> None:
    pool = things.pool(maximum=1)
    things.gates["a"] = gate = Gate()
    await used(pool, "a")
    await used(pool, "b")
    await gate.until_reached()
    waiting = asyncio.create_task(used(pool, "a"))
    await settle()
    waiting.cancel()
    gate.opened.set()
    await settle()
    assert things.closed == ["a"]
    assert await used(pool, "a") == "a"


async def test_what_cannot_be_made_is_tried_anew(things: Things) -> None:
    pool = things.pool()
    with pytest.raises(ValueError, match="wrong"):
        await used(pool, "a", "wrong")
    assert await used(pool, "a", "right") == "right"


async def test_closing_closes_all_once_also_what_is_used(things: Things) -> None:
    pool = things.pool()
    async with lending(pool, "a"):
        await used(pool, "broken")
        await pool.aclose()
        assert sorted(things.closed) == ["a", "broken"]
    await settle()
    assert sorted(things.closed) == ["a", "broken"]
    assert await used(pool, "a") == "a"
