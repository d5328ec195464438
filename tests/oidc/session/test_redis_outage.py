"""A Redis that is gone: every call says so with its code, and nothing is lost by it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.store import DEFAULT_TIMEOUT
from tests.oidc.session.values import KEY, ONE, calls_of
from tests.redis_server import running_redis


@pytest.fixture
async def gone(tmp_path: Path) -> AsyncIterator[Redis]:
    client = Redis(unix_socket_path=str(tmp_path / "nobody.sock"), retry=Retry(NoBackoff(), 0))
    yield client
    await client.aclose()


REFUSING = [
    ("unix://app:right@", "ACL SETUSER app on >right +hello +get ~*", "NoPermissionError"),
    ("unix://", "CONFIG SET maxmemory 1", "OutOfMemoryError"),
    ("unix://", "REPLICAOF 127.0.0.1 1", "ReadOnlyError"),
]


@pytest.mark.parametrize(("user", "change", "error"), REFUSING, ids=[row[-1] for row in REFUSING])
async def test_the_error_names_what_redis_refuses_and_costs_no_wait(
    user: str, change: str, error: str
) -> None:
    with running_redis() as url:
        operator = Redis.from_url(url)
        await operator.execute_command(*change.split())  # type: ignore[no-untyped-call]
        store = RedisStore(url.replace("unix://", user))
        for _ in range(3):
            with pytest.raises(
                SessionError, match=f"the store unix://.* could not write: {error}: "
            ) as caught:
                await store.swap(KEY, b"", ONE)
            assert caught.value.status == 503
        await asyncio.gather(store.aclose(), operator.aclose())


async def test_the_patience_given_with_a_url_is_kept(tmp_path: Path) -> None:
    """With a server that takes connections and says nothing."""
    path = tmp_path / "unresponsive.sock"
    with socket.socket(socket.AF_UNIX) as unresponsive:
        unresponsive.bind(str(path))
        unresponsive.listen()
        store = RedisStore(f"unix://{path}", timeout=0.05)
        for call in calls_of(store):
            async with asyncio.timeout(DEFAULT_TIMEOUT / 2):
                with pytest.raises(SessionError):
                    await call
        await store.aclose()
