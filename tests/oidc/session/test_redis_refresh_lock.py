"""The refresh lock of several processes: leases, waiting, and what is lost on the way."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from redis.asyncio import Redis

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.redis import RedisRefreshLock
from fastapi_oidc.session.redis.refresh_lock import _EXTEND
from fastapi_oidc.session.redis.scripts import Script
from tests.oidc.session.test_refresh_locks import PATIENCE, Refresh, Turns, YieldsTurnsContract
from tests.oidc.session.test_refresh_locks import turns as turns


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

    async def test_options_given_with_a_url_are_the_locks(
        self, redis: Redis, redis_url: str, prefix: str
    ) -> None:
        async def left() -> bytes:
            return str(await redis.pttl(f"{prefix}lock:session-1")).encode()

        lock = RedisRefreshLock.from_url(redis_url, prefix=prefix, ttl=3, wait=0.1)
        assert 0 < int(await lock.run_exclusive("session-1", left)) <= 3000
        await redis.set(f"{prefix}lock:session-2", "somebody else")
        with pytest.raises(SessionError) as caught:
            await lock.run_exclusive("session-2", left)
        assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE
        await lock.aclose()

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

    async def test_a_run_ends_when_the_extension_of_its_lease_swallows_its_cancellation(
        self, redis: Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lock = RedisRefreshLock(redis, prefix=prefix, ttl=0.3)
        run_script, extended = lock._connections.run_script, asyncio.Event()

        async def swallowing(script: Script, *rest: Any) -> Any:
            if script is _EXTEND and not extended.is_set():
                extended.set()
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
            return await run_script(script, *rest)

        async def until_extended() -> bytes:
            await extended.wait()
            return b"sealed"

        monkeypatch.setattr(lock._connections, "run_script", swallowing)
        async with asyncio.timeout(PATIENCE):
            assert await lock.run_exclusive("session-1", until_extended) == b"sealed"

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

    async def test_another_process_is_asked_less_often_the_longer_it_takes(
        self, redis: Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its end is noticed a quarter of its time later, or half a second, or 0.05."""
        key, pauses = f"{prefix}lock:session-1", list[float]()

        async def noted(seconds: float) -> None:
            pauses.append(seconds)
            if sum(pauses) > 10:
                monkeypatch.undo()
                await redis.delete(key)

        async def operation() -> bytes:
            return b"sealed"

        await redis.set(key, "somebody else")
        monkeypatch.setattr("fastapi_oidc.session.redis.refresh_lock.asyncio.sleep", noted)
        lock = RedisRefreshLock(redis, prefix=prefix, wait=5)
        assert await lock.run_exclusive("session-1", operation) == b"sealed"
        waited = [sum(pauses[:number]) for number in range(len(pauses))]
        assert (pauses[0], pauses[-1]) == (0.05, 0.5)
        assert all(
            0.05 <= pause <= max(0.05, min(0.5, before / 4) + 1e-9)
            for pause, before in zip(pauses, waited, strict=True)
        )

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
