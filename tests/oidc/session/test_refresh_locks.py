"""The contract of `RefreshLock`, held by every implementation."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from fastapi_oidc.session.abilities import KeepsAnswers, YieldsTurns
from fastapi_oidc.session.memory_lock import MemoryRefreshLock
from fastapi_oidc.session.stores import RefreshLock, settled
from tests.oidc.session.conftest import MovableClock

PATIENCE = 20


class Refresh:
    """An operation that takes a moment and counts its runs."""

    def __init__(self, result: bytes = b"sealed", error: Exception | None = None) -> None:
        self.result, self.error = result, error
        self.runs = 0

    async def __call__(self) -> bytes:
        self.runs += 1
        await asyncio.sleep(0.02)
        if self.error is not None:
            raise self.error
        return self.result


class RefreshLockContract(ABC):
    @pytest.fixture
    @abstractmethod
    def lock(self) -> RefreshLock: ...

    @pytest.mark.parametrize("result", [b"sealed", b""])
    async def test_one_run_answers_everybody(self, lock: RefreshLock, result: bytes) -> None:
        refresh = Refresh(result)
        callers = [lock.run_exclusive("session-1", refresh) for _ in range(20)]
        assert await asyncio.gather(*callers) == [result] * 20
        assert await lock.run_exclusive("session-1", refresh) == result
        assert refresh.runs == 1

    async def test_another_refresh_is_another_run(self, lock: RefreshLock) -> None:
        names = ("session-1:0", "session-1:1", "session-2:0")
        all_under_way = asyncio.Barrier(len(names))

        async def operation() -> bytes:
            await all_under_way.wait()
            return b"sealed"

        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(lock.run_exclusive(name, operation) for name in names))

    async def test_an_error_reaches_everybody_and_is_not_remembered(
        self, lock: RefreshLock
    ) -> None:
        failing, working = Refresh(error=ValueError("refused")), Refresh()
        callers = [lock.run_exclusive("session-1", failing) for _ in range(3)]
        outcomes = await asyncio.gather(*callers, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["refused"] * 3
        assert failing.runs == 1
        assert await lock.run_exclusive("session-1", working) == b"sealed"

    async def test_a_run_belongs_to_no_caller(self, lock: RefreshLock) -> None:
        goes_on = asyncio.Event()

        async def operation() -> bytes:
            await goes_on.wait()
            return b"sealed"

        first = asyncio.create_task(lock.run_exclusive("session-1", operation))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(lock.run_exclusive("session-1", Refresh(b"another")))
        goes_on.set()
        async with asyncio.timeout(PATIENCE):
            assert await second == b"sealed"


class KeepsAnswersContract(RefreshLockContract):
    async def test_an_answer_is_kept_until_it_is_forgotten(self, lock: KeepsAnswers) -> None:
        assert isinstance(lock, KeepsAnswers)
        assert await settled(lock.kept("session-1.0")) is None
        await settled(lock.keep("session-1.0", b"sealed answer", 60))
        assert await settled(lock.kept("session-1.0")) == b"sealed answer"
        assert await settled(lock.kept("session-1.1")) is None
        await settled(lock.forget("session-1.0"))
        await settled(lock.forget("session-1.0"))
        assert await settled(lock.kept("session-1.0")) is None

    async def test_what_one_has_claimed_nobody_else_claims(self, lock: KeepsAnswers) -> None:
        assert await settled(lock.claim("session-1.0", b"mine", 60)) is None
        assert await settled(lock.claim("session-1.0", b"yours", 60)) == b"mine"
        assert await settled(lock.kept("session-1.0")) == b"mine"
        await settled(lock.forget("session-1.0"))
        assert await settled(lock.claim("session-1.0", b"yours", 60)) is None


@dataclass(slots=True)
class Turns:
    """Notes who has a turn, and that one was given back."""

    under_way: int = 0
    given_back: asyncio.Event = field(default_factory=asyncio.Event)
    free: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        await self.free.wait()
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            self.given_back.set()


@pytest.fixture
def turns() -> Turns:
    turns = Turns()
    turns.free.set()
    return turns


class YieldsTurnsContract(KeepsAnswersContract):
    async def test_a_run_has_a_turn(self, lock: YieldsTurns, turns: Turns) -> None:
        assert isinstance(lock, YieldsTurns)

        async def operation() -> bytes:
            return str(turns.under_way).encode()

        assert await lock.run_in_turn("session-1", operation, turns.turn) == b"1"
        assert turns.under_way == 0


class TestMemoryRefreshLock(YieldsTurnsContract):
    @pytest.fixture
    def lock(self, moving: MovableClock) -> MemoryRefreshLock:
        return MemoryRefreshLock(clock=moving.clock)

    async def test_a_result_is_remembered_for_a_minute(self, moving: MovableClock) -> None:
        lock, refresh = MemoryRefreshLock(clock=moving.clock), Refresh()
        await lock.run_exclusive("session-1", refresh)
        moving.second += 59
        await lock.run_exclusive("session-1", refresh)
        assert refresh.runs == 1
        moving.second += 1
        await lock.run_exclusive("session-1", refresh)
        assert refresh.runs == 2

    async def test_a_claim_ends(self, moving: MovableClock) -> None:
        lock = MemoryRefreshLock(clock=moving.clock)
        lock.claim("session-1.0", b"mine", 70)
        moving.second += 70
        assert lock.claim("session-1.0", b"yours", 70) is None

    async def test_an_answer_is_kept_for_its_time(self, moving: MovableClock) -> None:
        lock = MemoryRefreshLock(clock=moving.clock)
        lock.keep("session-1.0", b"sealed answer", 300)
        moving.second += 300
        assert lock.kept("session-1.0") is None
