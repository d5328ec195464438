"""The contract of `RefreshLock`, held by every implementation."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from redis.asyncio import Redis

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.abilities import KeepsAnswers, YieldsTurns
from fastapi_oidc.session.memory_lock import MemoryRefreshLock
from fastapi_oidc.session.redis import RedisRefreshLock
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


class TestRedisRefreshLock(YieldsTurnsContract):
    @pytest.fixture
    def lock(self, redis: Redis, prefix: str) -> RedisRefreshLock:
        return RedisRefreshLock(redis, prefix=prefix)

    async def test_a_result_is_remembered_for_a_minute(self, redis: Redis, prefix: str) -> None:
        await RedisRefreshLock(redis, prefix=prefix).run_exclusive("session-1", Refresh())
        assert 58 <= await redis.ttl(f"{prefix}result:session-1") <= 60
        assert not await redis.exists(f"{prefix}lock:session-1")

    async def test_an_answer_is_kept_for_its_time_and_for_every_process(
        self, redis: Redis, prefix: str
    ) -> None:
        await RedisRefreshLock(redis, prefix=prefix).keep("session-1.0", b"sealed answer", 300)
        assert await RedisRefreshLock(redis, prefix=prefix).kept("session-1.0") == b"sealed answer"
        assert 200 < await redis.ttl(f"{prefix}kept:session-1.0") <= 300

    async def test_two_processes_run_once(self, redis: Redis, prefix: str) -> None:
        locks = [RedisRefreshLock(redis, prefix=prefix) for _ in range(4)]
        refresh = Refresh()
        callers = [lock.run_exclusive("session-1", refresh) for lock in locks]
        assert await asyncio.gather(*callers) == [b"sealed"] * 4
        assert refresh.runs == 1

    async def test_waiting_is_bounded(self, redis: Redis, prefix: str) -> None:
        await redis.set(f"{prefix}lock:session-1", "somebody else")
        refresh = Refresh()
        with pytest.raises(SessionError) as caught:
            await RedisRefreshLock(redis, prefix=prefix, wait=0.1).run_exclusive(
                "session-1", refresh
            )
        assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE
        assert refresh.runs == 0

    async def test_a_run_is_never_stopped_its_lease_is_extended(
        self, redis: Redis, prefix: str
    ) -> None:
        async def until_extended() -> bytes:
            left = previous = await redis.pttl(f"{prefix}lock:session-1")
            while left <= previous:
                await asyncio.sleep(0.02)
                previous, left = left, await redis.pttl(f"{prefix}lock:session-1")
            return b"sealed"

        lock = RedisRefreshLock(redis, prefix=prefix, ttl=3)
        assert await lock.run_exclusive("session-1", until_extended) == b"sealed"
        assert not await redis.exists(f"{prefix}lock:session-1")

    async def test_a_lease_that_was_lost_stops_no_run(
        self,
        redis: Redis,
        prefix: str,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        noticed = asyncio.Event()
        monkeypatch.setattr(caplog.handler, "emit", lambda record: noticed.set())

        async def until_noticed() -> bytes:
            await redis.set(f"{prefix}lock:session-1", "the new owner")
            await noticed.wait()
            return b"sealed"

        lock = RedisRefreshLock(redis, prefix=prefix, ttl=0.3)
        assert await lock.run_exclusive("session-1", until_noticed) == b"sealed"

    async def test_waiting_is_no_part_of_the_lease(self, redis: Redis, prefix: str) -> None:
        first, second = (RedisRefreshLock(redis, prefix=prefix, ttl=60) for _ in range(2))
        owned, fails, key = asyncio.Event(), asyncio.Event(), f"{prefix}lock:session-1"

        async def failing() -> bytes:
            await redis.pexpire(key, 20_000)  # as if most of its lease were over
            owned.set()
            await fails.wait()
            raise ValueError("refused")

        async def lease() -> bytes:
            return str(await redis.pttl(key)).encode()

        owner = asyncio.create_task(first.run_exclusive("session-1", failing))
        await owned.wait()
        waiting = asyncio.create_task(second.run_exclusive("session-1", lease))
        fails.set()
        with pytest.raises(ValueError, match="refused"):
            await owner
        assert int(await waiting) > 20_000

    async def test_another_process_is_waited_for_without_a_turn(
        self, redis: Redis, prefix: str, turns: Turns
    ) -> None:
        owned, ends = asyncio.Event(), asyncio.Event()

        async def until_it_ends() -> bytes:
            owned.set()
            await ends.wait()
            return b"sealed"

        locks = [RedisRefreshLock(redis, prefix=prefix) for _ in range(2)]
        owner = asyncio.create_task(locks[0].run_exclusive("session-1", until_it_ends))
        await owned.wait()
        refresh = Refresh()
        waiting = asyncio.create_task(locks[1].run_in_turn("session-1", refresh, turns.turn))
        async with asyncio.timeout(PATIENCE):
            await turns.given_back.wait()
            assert not waiting.done()
            ends.set()
            assert await waiting == await owner == b"sealed"
        assert (refresh.runs, turns.under_way) == (0, 0)

    async def test_nobody_waits_for_a_turn_with_the_lock_in_hand(
        self, redis: Redis, prefix: str, turns: Turns
    ) -> None:
        turns.free.clear()
        waits, takes = (RedisRefreshLock(redis, prefix=prefix) for _ in range(2))
        waiting = asyncio.create_task(waits.run_in_turn("session-1", Refresh(), turns.turn))
        assert await takes.run_exclusive("session-1", Refresh(b"taken")) == b"taken"
        turns.free.set()
        assert await waiting == b"taken"

    async def test_a_claim_is_of_every_process_and_ends(self, redis: Redis, prefix: str) -> None:
        locks = [RedisRefreshLock(redis, prefix=prefix) for _ in range(2)]
        assert await locks[0].claim("session-1.0", b"mine", 70) is None
        assert await locks[1].claim("session-1.0", b"yours", 70) == b"mine"
        assert 60 < await redis.ttl(f"{prefix}kept:session-1.0") <= 70

    async def test_a_lock_whose_answer_was_lost_is_not_waited_for(
        self, redis: Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The client sends a command again when its connection breaks before the answer."""
        monkeypatch.setattr("secrets.token_hex", lambda length: "the same owner")
        await redis.set(f"{prefix}lock:session-1", "the same owner", px=60_000)
        lock = RedisRefreshLock(redis, prefix=prefix, wait=5)
        assert await lock.run_exclusive("session-1", Refresh()) == b"sealed"

    async def test_a_claim_whose_answer_was_lost_is_its_makers(
        self, redis: Redis, prefix: str
    ) -> None:
        lock = RedisRefreshLock(redis, prefix=prefix)
        for _ in range(2):  # the client sends it again
            assert await lock.claim("session-1.0", b"mine", 60) is None
        assert await lock.claim("session-1.0", b"yours", 60) == b"mine"

    async def test_a_time_out_of_the_operation_stays_its_own(
        self, redis: Redis, prefix: str
    ) -> None:
        with pytest.raises(TimeoutError, match="provider"):
            await RedisRefreshLock(redis, prefix=prefix).run_exclusive(
                "session-1", Refresh(error=TimeoutError("provider"))
            )

    async def test_a_lock_that_was_lost_is_not_taken_from_its_new_owner(
        self, redis: Redis, prefix: str
    ) -> None:
        async def lose_the_lock() -> bytes:
            await redis.set(f"{prefix}lock:session-1", "the new owner")
            return b"sealed"

        await RedisRefreshLock(redis, prefix=prefix).run_exclusive("session-1", lose_the_lock)
        assert await redis.get(f"{prefix}lock:session-1") == b"the new owner"
