"""Clients of Redis: by a URL, of an application, and the pools and waits of their commands."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.connection import SSLConnection

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.redis import RedisStore, client_of
from fastapi_oidc.session.store import DEFAULT_TIMEOUT, Cell
from tests.oidc.session.values import KEY, LATER, ONE, calls_of, has_one, put_one
from tests.redis_server import running_redis

CREDENTIALS = {"username": "app", "password": "p@ss/word,+"}
WRITTEN = "app:p%40ss%2Fword%2C%2B"


def test_one_server() -> None:
    client = client_of(f"redis://{WRITTEN}@redis.example.com:6380/3?socket_timeout=2", 50)
    expected = {"host": "redis.example.com", "port": 6380, "db": 3, "socket_timeout": 2}
    options = client.connection_pool.connection_kwargs
    assert (CREDENTIALS | expected).items() <= options.items()
    assert options["retry"]._retries == 1


@pytest.mark.parametrize("url", ["rediss://redis.example.com", "rediss://[::1]:6379"])
def test_tls_checks_who_answers(url: str) -> None:
    client = client_of(f"{url}?ssl_ca_certs=/ca.pem&ssl_certfile=/me.pem", 50)
    assert client.connection_pool.connection_class is SSLConnection
    expected = {"ssl_ca_certs": "/ca.pem", "ssl_certfile": "/me.pem", "ssl_check_hostname": True}
    assert expected.items() <= client.connection_pool.connection_kwargs.items()


@pytest.mark.parametrize(
    "url",
    [
        "redis.example.com:6379",
        "http://redis.example.com",
        "redis://app:secret/word@redis.example.com",
        "redis://redis.example.com/0?socket_timeout=secret",
        "redis+sentinel://one,two/mymaster",
        "redis+cluster://one,two",
    ],
)
def test_what_is_no_url_of_a_redis_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RedisStore(url)
    assert caught.value.code is Code.CONFIGURATION_INVALID
    assert re.search(r"Error|Exception", caught.value.message)
    assert "secret" not in f"{caught.value!r} {caught.value} {caught.value.message}"
    assert caught.value.__cause__ is None


def a_cluster_with_replicas() -> RedisCluster:
    client = RedisCluster("10.0.0.1")
    client.read_from_replicas = True
    return client


@pytest.mark.parametrize(
    "make",
    [
        redis.Redis,
        lambda: Redis(decode_responses=True),
        lambda: RedisCluster("10.0.0.1", decode_responses=True),
        a_cluster_with_replicas,
    ],
    ids=["sync", "decodes", "a cluster that decodes", "a cluster with replicas"],
)
def test_a_client_that_would_mislead_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RedisStore(make())
    assert caught.value.code is Code.CONFIGURATION_INVALID


async def most_at_once(store: RedisStore, expected: int) -> int:
    """Of many commands, which end when so many as are expected have begun."""
    under_way, most = 0, 0
    begun = asyncio.Event()

    async def command(_client: Redis) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == expected:
            begun.set()
        await begun.wait()
        under_way -= 1

    await asyncio.gather(*(store._run(command, "wait") for _ in range(120)))
    return most


async def test_no_more_commands_are_sent_at_once_than_a_store_may_have_connections(
    redis: Redis, redis_url: str
) -> None:
    assert await most_at_once(RedisStore(redis), 50) == 50
    assert await most_at_once(RedisStore(redis_url, max_connections=7), 7) == 7


async def test_a_command_that_waits_too_long_says_that_the_store_is_busy(redis: Redis) -> None:
    store = RedisStore(redis, timeout=0.01, max_connections=1)
    async with store._reached.here()[1]:
        with pytest.raises(SessionError) as caught:
            await store.read([KEY])
    assert (caught.value.code, caught.value.status) == (Code.SESSION_STORE_UNAVAILABLE, 503)


async def test_a_store_made_of_a_url_closes_what_it_opened(redis_url: str, prefix: str) -> None:
    store = RedisStore(redis_url, prefix=prefix)
    for _ in range(2):  # and opens it again
        await put_one(store)
        assert await has_one(store)
        await store.aclose()


async def test_a_client_that_was_given_is_not_closed(redis: Redis, prefix: str) -> None:
    await redis.ping()
    connection = redis.connection_pool._available_connections[0]
    await RedisStore(redis, prefix=prefix).aclose()
    assert connection.is_connected


async def test_a_name_that_leads_to_another_master_is_followed(tmp_path: Path) -> None:
    """As where a service does its failover behind one name; here that is a symbolic link."""
    name = tmp_path / "redis.sock"
    with running_redis() as one, running_redis() as other:
        name.symlink_to(one.removeprefix("unix://"))
        store = RedisStore(f"unix://{name}")
        await asyncio.gather(*(put_one(store) for _ in range(5)))
        client = Redis.from_url(one)
        await client.replicaof("127.0.0.1", "1")
        name.unlink()
        name.symlink_to(other.removeprefix("unix://"))
        with pytest.raises(SessionError):
            await put_one(store)
        await put_one(store)
        assert [await has_one(store) for _ in range(5)] == [True] * 5
        await asyncio.gather(store.aclose(), client.aclose())


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_store_made_of_a_url_works_in_every_event_loop(redis_url: str, prefix: str) -> None:
    """As for a command line that calls `asyncio.run(oidc.revoke(...))` and closes nothing."""
    store = RedisStore(redis_url, prefix=prefix)

    async def use(store: RedisStore) -> bool:
        await put_one(store)
        return await has_one(store)

    for _ in range(4):
        assert asyncio.run(use(store))
    del store
    gc.collect()  # the warnings come within this test


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


@pytest.fixture
def store(redis: Redis, prefix: str) -> RedisStore:
    return RedisStore(redis, prefix=prefix)


async def test_a_key_has_time_value_and_end(store: RedisStore, redis: Redis, prefix: str) -> None:
    before = (await redis.time())[0]
    await put_one(store)
    stored = await redis.get(prefix + KEY)
    assert stored is not None
    assert stored[16:] == ONE.value
    assert before <= int(stored[:16]) / 1e6 <= (await redis.time())[0] + 1
    assert await redis.expiretime(prefix + KEY) == LATER
    await store.swap(KEY, ONE.value, Cell(b"", LATER))
    assert not await redis.exists(prefix + KEY)


async def test_ages_are_by_the_clock_of_redis(store: RedisStore, redis: Redis, prefix: str) -> None:
    now = (await redis.time())[0]
    for seconds in (3600, -3600):
        await redis.set(prefix + KEY, b"%010d000000one" % (now - seconds))
        seen = await store.swap(KEY, None, ONE)
        assert seen is not None
        assert seen.value == b"one"
        assert seen.age == pytest.approx(seconds, abs=60)
