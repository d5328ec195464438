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
from fastapi_oidc.session.redis import RedisRefreshLock, RedisRevocationStore, RedisSessionStore
from fastapi_oidc.session.stores import DEFAULT_TIMEOUT
from tests.oidc.session.examples import User, a_session, bound, calls_of
from tests.redis_server import running_redis


@pytest.fixture
async def gone(tmp_path: Path) -> AsyncIterator[Redis]:
    client = Redis(unix_socket_path=str(tmp_path / "nobody.sock"), retry=Retry(NoBackoff(), 0))
    yield client
    await client.aclose()


async def test_every_call_of_a_redis_that_is_gone_says_so(gone: Redis) -> None:
    for call, code in calls_of(bound(RedisSessionStore(gone, User))):
        with pytest.raises(SessionError) as caught:
            await call
        assert (caught.value.code, caught.value.status) == (code, 503)


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
        store = bound(RedisSessionStore.from_url(url.replace("unix://", user), User))
        for _ in range(3):
            with pytest.raises(SessionError, match=f"the store raised {error}$") as caught:
                await store.set("id", a_session())
            assert caught.value.status == 503
        await asyncio.gather(store.aclose(), operator.aclose())


async def test_the_patience_given_with_a_url_is_kept(tmp_path: Path) -> None:
    """With a server that takes connections and says nothing."""
    path = tmp_path / "unresponsive.sock"
    with socket.socket(socket.AF_UNIX) as unresponsive:
        unresponsive.bind(str(path))
        unresponsive.listen()
        url, patience = f"unix://{path}", 0.05
        store = bound(RedisSessionStore.from_url(url, User, timeout=patience))
        revocations = RedisRevocationStore.from_url(url, timeout=patience)
        lock = RedisRefreshLock.from_url(url, timeout=patience)
        for call in (store.get("id"), revocations.ended_by(a_session()), lock.look("name")):
            async with asyncio.timeout(DEFAULT_TIMEOUT / 2):
                with pytest.raises((SessionError, TimeoutError)):
                    await call
        await asyncio.gather(store.aclose(), revocations.aclose(), lock.aclose())
