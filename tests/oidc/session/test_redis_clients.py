"""Clients of Redis: by a URL, of an application, and the pools and waits of their commands."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import SSLConnection
from redis.exceptions import (
    ClusterDownError,
    NoPermissionError,
    ReadOnlyError,
    RedisClusterException,
    ResponseError,
    SlotNotCoveredError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.redis.store import RedisUnresponsiveError, client_of, options_of
from fastapi_oidc.session.store import DEFAULT_TIMEOUT, Cell
from tests.oidc.session.values import KEY, LATER, ONE, calls_of, has_one, put_one
from tests.redis_server import running_redis

CREDENTIALS = {"username": "app", "password": "p@ss/word,+"}
WRITTEN = "app:p%40ss%2Fword%2C%2B"


def test_one_server() -> None:
    client = client_of(f"redis://{WRITTEN}@redis.example.com:6380/3?socket_timeout=2", 50)
    expected = {"host": "redis.example.com", "port": 6380, "db": 3, "socket_timeout": 2}
    assert (CREDENTIALS | expected).items() <= options_of(client).items()
    assert options_of(client)["retry"]._retries == 1


@pytest.mark.parametrize("url", ["rediss://redis.example.com", "rediss://[::1]:6379"])
def test_tls_checks_who_answers(url: str) -> None:
    client = client_of(f"{url}?ssl_ca_certs=/ca.pem&ssl_certfile=/me.pem", 50)
    assert client.connection_pool.connection_class is SSLConnection
    expected = {"ssl_ca_certs": "/ca.pem", "ssl_certfile": "/me.pem", "ssl_check_hostname": True}
    assert expected.items() <= options_of(client).items()


@pytest.mark.parametrize(
    "url",
    [
        "redis.example.com:6379",
        "http://redis.example.com",
        "redis://app:secret/word@redis.example.com",
        "redis://redis.example.com/0?socket_timeout=secret",
        "redis://redis.example.com/0?socket_timout=5",
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


@pytest.mark.parametrize(
    ("client", "address"),
    [
        (Redis.from_url("redis://app:pass@one:6380/2"), "one:6380"),
        (Redis(unix_socket_path="/run/redis.sock"), "/run/redis.sock"),
        (Sentinel([("one", 1)]).master_for("sessions"), "sessions"),  # type: ignore[no-untyped-call]
        (RedisCluster(startup_nodes=[ClusterNode("one", 1), ClusterNode("two", 2)]), "one:1,two:2"),
    ],
    ids=["server", "socket", "sentinel", "cluster"],
)
def test_errors_name_where_a_client_leads(client: Redis | RedisCluster, address: str) -> None:
    assert RedisStore(client)._place.address == f"redis://{address}"


def a_cluster_with_replicas() -> RedisCluster:
    client = RedisCluster("10.0.0.1")
    client.read_from_replicas = True
    return client


def a_replica() -> Redis:
    sentinel = Sentinel([("one", 26379)])  # type: ignore[no-untyped-call]
    return cast("Redis", sentinel.slave_for("mymaster"))


@pytest.mark.parametrize(
    "make",
    [
        redis.Redis,
        lambda: Redis(decode_responses=True),
        lambda: RedisCluster("10.0.0.1", decode_responses=True),
        a_cluster_with_replicas,
        a_replica,
    ],
    ids=["sync", "decodes", "a cluster that decodes", "a cluster with replicas", "a replica"],
)
def test_a_client_that_would_mislead_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RedisStore(make())
    assert caught.value.code is Code.CONFIGURATION_INVALID


USUAL = 5.0
STORE = "fastapi_oidc.session.redis.store"


def failing(error: Exception) -> Callable[[Any], Awaitable[None]]:
    async def command(client: object) -> None:
        raise error

    return command


async def never(client: object) -> None:
    await asyncio.Event().wait()


async def answered(client: object) -> str:
    return "answer"


async def ask(store: RedisStore, command: Callable[[Any], Awaitable[Any]]) -> Any:
    """The reply, or the error of Redis."""
    try:
        return await store._run(command, "ask")
    except SessionError as error:
        raise (error.__cause__ or error) from None


def is_silent(store: RedisStore) -> bool:
    return store._reached.here().is_silent


async def silent(redis: Redis) -> RedisStore:
    """A store on a Redis that has not answered."""
    store = RedisStore(redis, timeout=0.01)
    with pytest.raises(TimeoutError):
        await ask(store, never)
    store._timeout = USUAL
    return store


@pytest.mark.parametrize("unanswered", [never, failing(RedisTimeoutError())])
async def test_a_redis_without_an_answer_in_time_is_asked_by_one_command_at_a_time(
    redis: Redis, unanswered: Callable[[Any], Awaitable[None]]
) -> None:
    store = RedisStore(redis, timeout=0.01)
    with pytest.raises((TimeoutError, RedisTimeoutError)):
        await ask(store, unanswered)
    store._timeout = USUAL
    for _ in range(2):  # whoever goes away while it asks leaves it to another
        asking = asyncio.create_task(ask(store, never))
        await asyncio.sleep(0)
        with pytest.raises(RedisUnresponsiveError):
            await ask(store, answered)
        asking.cancel()
        await asyncio.wait([asking])
    assert [await ask(store, answered) for _ in range(3)] == ["answer"] * 3
    assert not is_silent(store)


async def test_a_command_from_before_the_last_reply_ends_no_silence(redis: Redis) -> None:
    store = RedisStore(redis, timeout=0.2)
    earlier = asyncio.create_task(ask(store, never))
    await asyncio.sleep(0)
    await ask(store, answered)
    store._timeout = 0.01
    with pytest.raises(TimeoutError):
        await ask(store, never)
    with pytest.raises(TimeoutError):
        await earlier
    assert is_silent(store)


UNREACHED = [
    RedisConnectionError("late"),
    RedisClusterException("no node"),
    SlotNotCoveredError("one of them is gone"),
    ClusterDownError("the cluster is down"),
    OSError("late"),
]


@pytest.mark.parametrize("error", [*UNREACHED, ValueError("of ours")], ids=repr)
@pytest.mark.parametrize(("long", "is_long"), [(0, True), (60, False)], ids=["waits", "at once"])
async def test_what_is_waited_for_in_vain_is_silence_and_what_fails_at_once_is_not(
    redis: Redis, error: Exception, long: int, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{STORE}.LONG_FAILURE", long)
    store = RedisStore(redis, timeout=USUAL)
    with pytest.raises(type(error)):
        await ask(store, failing(error))
    assert is_silent(store) is (is_long and error in UNREACHED)


@pytest.mark.parametrize(
    ("reply", "is_answer"),
    [
        (ResponseError("NOREPLICAS"), True),
        (ReadOnlyError("READONLY"), True),
        (NoPermissionError("NOPERM"), True),
        (ClusterDownError("of a node that knows of no whole cluster"), False),
    ],
)
async def test_an_error_reply_is_an_answer(
    redis: Redis, reply: ResponseError, is_answer: bool
) -> None:
    store = await silent(redis)
    with pytest.raises(type(reply)):
        await ask(store, failing(reply))
    assert is_silent(store) is not is_answer


async def test_a_redis_that_replies_to_others_is_not_unresponsive(redis: Redis) -> None:
    """A process with hardly any processor time is slow to read what has arrived."""
    store = RedisStore(redis, timeout=0.05)

    async def outlived(client: object) -> None:
        await ask(store, answered)
        await never(client)

    with pytest.raises(TimeoutError):
        await ask(store, outlived)
    assert not is_silent(store)


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


@pytest.mark.parametrize(("allowed", "at_once"), [(100, 50), (8, 4), (1, 1), (2**31, 50)])
async def test_a_pool_that_raises_is_used_by_half_and_by_fifty_at_the_most(
    redis_url: str, allowed: int, at_once: int
) -> None:
    client = Redis.from_url(redis_url, max_connections=allowed)
    assert await most_at_once(RedisStore(client), at_once) == at_once
    await client.aclose()


async def test_a_pool_that_waits_or_is_of_the_store_is_used_as_it_is(redis_url: str) -> None:
    pool = BlockingConnectionPool.from_url(redis_url, max_connections=7)
    assert await most_at_once(RedisStore(Redis(connection_pool=pool)), 7) == 7
    assert await most_at_once(RedisStore(redis_url, max_connections=7), 7) == 7


async def test_a_command_that_waits_too_long_says_that_the_store_is_busy(redis_url: str) -> None:
    client = Redis.from_url(redis_url, max_connections=1)
    store = RedisStore(client, timeout=0.01)
    async with store._reached.here().slots:
        with pytest.raises(SessionError) as caught:
            await store.read([KEY])
    assert (caught.value.code, caught.value.status) == (Code.SESSION_STORE_UNAVAILABLE, 503)
    await client.aclose()


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
