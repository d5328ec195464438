from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from fastapi_oidc.clock import Clock
from tests.oidc.session.examples import NOW
from tests.redis_server import redis_url as redis_url


class MovableClock:
    """Reads the second it was moved to; starts at NOW."""

    def __init__(self) -> None:
        self.second = NOW
        self.clock = Clock(read=lambda: self.second)


@pytest.fixture
def moving() -> MovableClock:
    return MovableClock()


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    client = Redis.from_url(redis_url)
    yield client
    await client.aclose()


@pytest.fixture
def prefix() -> str:
    """Keeps the keys of one test apart from those of the others."""
    return f"{secrets.token_hex(8)}:"
