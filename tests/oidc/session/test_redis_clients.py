"""What a URL says is what the client does, and which clients of an application are refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import redis
from redis.asyncio import Redis, RedisCluster, Sentinel
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
@pytest.mark.parametrize(
    ("long", "is_long"), [(0, True), (60, False)], ids=["after a wait", "at once"]
)
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
