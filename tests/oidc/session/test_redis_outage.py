"""A Redis that is gone: every call says so with its code, and nothing is lost by it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisClusterException

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.redis import RedisRefreshLock, RedisRevocationStore, RedisSessionStore
from fastapi_oidc.session.redis.connections import DEFAULT_TIMEOUT
from fastapi_oidc.session.redis.records import _EXTEND, _RELEASE
from fastapi_oidc.session.redis.scripts import Script
from tests.oidc.session.examples import NOW, User, a_record, a_session
from tests.redis_server import running_redis


@pytest.fixture
async def gone(tmp_path: Path) -> AsyncIterator[Redis]:
    client = Redis(unix_socket_path=str(tmp_path / "nobody.sock"), retry=Retry(NoBackoff(), 0))
    yield client
    await client.aclose()


async def test_the_session_store_is_unavailable(gone: Redis) -> None:
    store = RedisSessionStore(gone, User)
    for call in (
        store.get("id"),
        store.get_with_endings("id", ()),
        store.set("id", a_session()),
        store.replace("id", a_session()),
        store.touch("id", NOW),
        store.delete("id"),
        store.sessions_of("https://op.example.com", "app", "alice"),
    ):
        with pytest.raises(SessionError) as caught:
            await call
        assert caught.value.code is Code.SESSION_STORE_UNAVAILABLE
        assert caught.value.status == 503


REFUSING = [
    ("unix://app:right@", "ACL SETUSER app on >right +hello +get ~*", "NoPermissionError"),
    ("unix://", "CONFIG SET maxmemory 1", "OutOfMemoryError"),
    ("unix://", "REPLICAOF 127.0.0.1 1", "ReadOnlyError"),
]


@pytest.mark.parametrize(("user", "change", "told"), REFUSING, ids=[row[-1] for row in REFUSING])
async def test_a_redis_that_refuses_is_told_by_what_it_refuses_and_costs_no_wait(
    user: str, change: str, told: str
) -> None:
    with running_redis() as url:
        operator = Redis.from_url(url)
        await operator.execute_command(*change.split())  # type: ignore[no-untyped-call]
        store = RedisSessionStore.from_url(url.replace("unix://", user), User)
        for _ in range(3):
            with pytest.raises(SessionError, match=f"the store raised {told}$") as caught:
                await store.set("id", a_session())
            assert caught.value.status == 503
        await asyncio.gather(store.aclose(), operator.aclose())


async def test_the_revocation_store_is_unavailable(gone: Redis) -> None:
    store = RedisRevocationStore(gone)
    for call in (store.revoke(a_record()), store.is_revoked(a_session())):
        with pytest.raises(SessionError) as caught:
            await call
        assert caught.value.code is Code.SESSION_REVOCATION_UNAVAILABLE


async def test_the_lock_is_unavailable_and_nothing_runs_without_it(gone: Redis) -> None:
    async def operation() -> bytes:
        raise AssertionError("ran without the lock")

    with pytest.raises(SessionError) as caught:
        await RedisRefreshLock(gone).run_exclusive("session-1", operation)
    assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE


async def test_the_lock_keeps_nothing_without_saying_so(gone: Redis) -> None:
    lock = RedisRefreshLock(gone)
    for call in (
        lock.claim("name", b"data", 60),
        lock.keep("name", b"data", 60),
        lock.kept("name"),
        lock.forget("name"),
    ):
        with pytest.raises(SessionError) as caught:
            await call
        assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE


async def test_the_patience_given_with_a_url_is_kept(tmp_path: Path) -> None:
    """With a server that takes connections and says nothing."""
    path = tmp_path / "mute.sock"
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(path))
        mute.listen()
        url, patience = f"unix://{path}", 0.05
        store = RedisSessionStore.from_url(url, User, timeout=patience)
        revocations = RedisRevocationStore.from_url(url, timeout=patience)
        lock = RedisRefreshLock.from_url(url, timeout=patience)
        for call in (store.get("id"), revocations.is_revoked(a_session()), lock.kept("name")):
            async with asyncio.timeout(DEFAULT_TIMEOUT / 2):
                with pytest.raises(SessionError):
                    await call
        await asyncio.gather(store.aclose(), revocations.aclose(), lock.aclose())


async def test_a_redis_that_goes_during_the_run_does_not_lose_its_result(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running_redis() as url:
        client = Redis.from_url(url, retry=Retry(NoBackoff(), 0))

        async def operation() -> bytes:
            await client.shutdown(nosave=True)
            return b"sealed-secret"

        with caplog.at_level(logging.WARNING, logger="fastapi_oidc"):
            assert await RedisRefreshLock(client).run_exclusive("s", operation) == b"sealed-secret"
        await client.aclose()
    assert "lock not released" in caplog.text
    assert "sealed-secret" not in caplog.text


PATIENCE = 20


class Failing:
    """One script, which fails the first time that it is run."""

    def __init__(self, script: Script, error: Exception) -> None:
        self._script, self._error, self._run = script, error, Script.run
        self.runs, self.is_run_again = 0, asyncio.Event()

    async def run(self, script: Script, *args: Any) -> Any:
        if script is self._script:
            self.runs += 1
            if self.runs == 1:
                raise self._error
            self.is_run_again.set()
        return await self._run(script, *args)


FAILURES = [
    RedisConnectionError("closed"),
    RedisClusterException("no node of it answers"),
    RuntimeError("whatever a client raises"),
]


@pytest.mark.parametrize("error", FAILURES, ids=repr)
async def test_a_lease_that_was_not_extended_once_is_extended_the_next_time(
    redis: Redis, prefix: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Failing(_EXTEND, error)
    monkeypatch.setattr(Script, "run", lambda *args: failing.run(*args))

    async def operation() -> bytes:
        async with asyncio.timeout(PATIENCE):
            await failing.is_run_again.wait()
        return b"sealed-secret"

    lock = RedisRefreshLock(redis, prefix=prefix, ttl=0.06)
    assert await lock.run_exclusive("s", operation) == b"sealed-secret"


@pytest.mark.parametrize("error", FAILURES, ids=repr)
async def test_a_lock_that_is_not_given_back_does_not_lose_the_result(
    redis: Redis,
    prefix: str,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing = Failing(_RELEASE, error)
    monkeypatch.setattr(Script, "run", lambda *args: failing.run(*args))

    async def operation() -> bytes:
        return b"sealed-secret"

    with caplog.at_level(logging.WARNING, logger="fastapi_oidc"):
        lock = RedisRefreshLock(redis, prefix=prefix)
        assert await lock.run_exclusive("s", operation) == b"sealed-secret"
    [words] = [record.getMessage() for record in caplog.records]
    assert words.endswith(f"not released, it ends by itself: {type(error).__name__}")
