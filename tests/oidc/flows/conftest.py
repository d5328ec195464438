"""What several files of this folder need."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.oidc.flows.ending_bench import Bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    bench.keeper.refused.clear()
    await bench.writer.aclose()
