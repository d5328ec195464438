import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis
from sqlalchemy import delete

from fastapi_oidc.clock import Clock
from fastapi_oidc.session.sql import SQLStore, table
from tests.oidc.session.examples import NOW
from tests.postgres_server import postgres_url as postgres_url
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


@pytest.fixture(scope="session")
def sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One file for the whole run; each test empties its tables."""
    return f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('sqlite') / 'sessions.db'}"


@pytest.fixture(params=["postgresql", "sqlite"])
def sql_url(request: pytest.FixtureRequest) -> str:
    """Of each database in turn."""
    return url_of(request, request.param)


def url_of(request: pytest.FixtureRequest, kind: str) -> str:
    """Starts PostgreSQL only for tests that use it."""
    url: str = request.getfixturevalue("postgres_url" if kind == "postgresql" else "sqlite_url")
    return url


@asynccontextmanager
async def opened_values(url: str) -> AsyncIterator[SQLStore]:
    """A store as one process has it, empty."""
    store = SQLStore(url)
    await store.create_tables()
    await store._send(delete(table), {})
    yield store
    await store.aclose()


@pytest.fixture
async def sql_values(sql_url: str) -> AsyncIterator[SQLStore]:
    async with opened_values(sql_url) as store:
        yield store
