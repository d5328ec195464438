"""Processes whose `provider_timeout` differs, as they do while a new one is rolled out."""

from __future__ import annotations

from fastapi_oidc import MemoryRefreshLock
from fastapi_oidc.clock import Clock
from fastapi_oidc.session.records import Phase, RefreshRecords, Take
from fastapi_oidc.session.redis import RedisRefreshLock
from tests.oidc.session.examples import NOW

SHORTEST, LONGEST = 60.0, 120.0
"""Seconds that a record is held for, with the shortest and the longest `provider_timeout`."""


def take(owner: str, hold: float) -> Take:
    return Take(generation=0, owner=owner, hold=hold, answered_hold=20)


async def second_owner_waits(records: RefreshRecords) -> bool:
    record = await records.take("session-1", take("a", LONGEST), lifetime=60)
    assert record.owner == "a"
    record = await records.take("session-1", take("b", SHORTEST), lifetime=60)
    return (record.owner, record.phase) == ("a", Phase.SENT)


async def test_in_memory_the_longer_hold_counts() -> None:
    assert await second_owner_waits(MemoryRefreshLock(clock=Clock(read=lambda: NOW)))


async def test_on_redis_the_longer_hold_counts(redis: object, prefix: str) -> None:
    assert await second_owner_waits(RedisRefreshLock(redis, prefix=prefix))  # type: ignore[arg-type]
