"""The refresh lock between processes that share nothing but Redis."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process

from redis.asyncio import Redis

from fastapi_oidc.session.redis import RedisRefreshLock

PROCESSES = 4
NAMES = [f"session-{number}" for number in range(10)]


async def a_worker(url: str, prefix: str, *names: str, ttl: float = 30.0) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.oidc.session.lock_worker", url, prefix, str(ttl), *names),
        stdout=PIPE,
    )


async def output_of(worker: Process) -> bytes:
    output, _ = await worker.communicate()
    return output


async def test_each_refresh_runs_once_over_four_processes(redis_url: str, prefix: str) -> None:
    workers = [await a_worker(redis_url, prefix, *NAMES) for _ in range(PROCESSES)]
    outputs = await asyncio.gather(*map(output_of, workers))
    assert [worker.returncode for worker in workers] == [0] * PROCESSES
    expected = [f"{name} refreshed 1" for name in NAMES]
    assert [json.loads(output) for output in outputs] == [expected] * PROCESSES


async def test_when_the_holder_dies_another_takes_over(
    redis_url: str, redis: Redis, prefix: str
) -> None:
    holder = await a_worker(redis_url, prefix, "hold", ttl=1.0)
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"holding\n"
    began = time.monotonic()
    holder.kill()
    await holder.communicate()
    lock = RedisRefreshLock(redis, prefix=prefix, wait=10)
    result = await lock.run_exclusive("hold", lambda: asyncio.sleep(0, b"taken over"))
    assert result == b"taken over"
    assert 0.2 < time.monotonic() - began < 8
