"""What several files of this folder need."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from fastapi_oidc import Clock, MemoryRefreshLock
from tests.oidc.flows.ending_bench import Bench
from tests.oidc.world import Time, World, make_world


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    bench.keeper.refused.clear()
    await bench.writer.aclose()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def lock(time: Time) -> MemoryRefreshLock:
    return MemoryRefreshLock(clock=Clock(read=time))


@pytest.fixture(params=[None, "memory"], ids=["cookie", "store"])
def world(request: pytest.FixtureRequest) -> World:
    """One with sessions in cookies, and one with a store."""
    return make_world(session_store=request.param)
