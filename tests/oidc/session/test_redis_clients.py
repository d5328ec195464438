"""What a URL says is what the client does: one server, the master of sentinels, a cluster."""

import re
from collections.abc import Callable
from typing import Any, cast

import pytest
from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.connection import SSLConnection
from redis.asyncio.sentinel import SentinelConnectionPool, SentinelManagedSSLConnection

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.redis.store import NODE_SECONDS, client_of, close, options_of

CREDENTIALS = {"username": "app", "password": "p@ss/word,+"}
WRITTEN = "app:p%40ss%2Fword%2C%2B"


def master(url: str) -> tuple[SentinelConnectionPool, list[dict[str, Any]]]:
    """The pool of connections to the master, and what is used to ask each sentinel."""
    client = client_of(url, 50)
    assert isinstance(client, Redis)
    pool = client.connection_pool
    assert isinstance(pool, SentinelConnectionPool)
    return pool, [options_of(sentinel) for sentinel in pool.sentinel_manager.sentinels]


def test_one_server() -> None:
    client = client_of(f"redis://{WRITTEN}@redis.example.com:6380/3?socket_timeout=2", 50)
    expected = {"host": "redis.example.com", "port": 6380, "db": 3, "socket_timeout": 2}
    assert (CREDENTIALS | expected).items() <= options_of(client).items()
    assert options_of(client)["retry"]._retries == 1


@pytest.mark.parametrize(
    "url", ["rediss://redis.example.com", "rediss://[::1]:6379", "rediss+cluster://10.0.0.1"]
)
def test_tls_checks_who_answers(url: str) -> None:
    client = client_of(f"{url}?ssl_ca_certs=/ca.pem&ssl_certfile=/me.pem", 50)
    options = options_of(client)
    if isinstance(client, Redis):
        options = options | {"connection_class": client.connection_pool.connection_class}
    assert options["connection_class"] is SSLConnection
    expected = {"ssl_ca_certs": "/ca.pem", "ssl_certfile": "/me.pem", "ssl_check_hostname": True}
    assert expected.items() <= options.items()


def test_the_master_that_sentinels_name() -> None:
    pool, sentinels = master(f"redis+sentinel://{WRITTEN}@one:26380,two,[::1]:26381/my%2Fmaster/2")
    assert (pool.service_name, pool.is_master, pool.max_connections) == ("my/master", True, 50)
    assert (CREDENTIALS | {"db": 2}).items() <= pool.connection_kwargs.items()
    hosts = [(sentinel["host"], sentinel["port"]) for sentinel in sentinels]
    assert hosts == [("one", 26380), ("two", 26379), ("::1", 26381)]
    assert not pool.connection_kwargs.keys() & {"host", "port"}
    for sentinel in sentinels:
        assert sentinel["socket_timeout"] == sentinel["socket_connect_timeout"] == NODE_SECONDS
        assert sentinel["password"] is sentinel["username"] is None
        assert sentinel["retry"]._retries == 0


def test_only_the_first_mark_of_each_kind_parts_a_url() -> None:
    pool, _ = master("redis+sentinel://app:a,b@one,two/mymaster?client_name=of://us")
    assert (pool.connection_kwargs["password"], pool.service_name) == ("a,b", "mymaster")
    assert pool.connection_kwargs["client_name"] == "of://us"


def test_patience_that_a_url_asks_for_is_for_sentinels_too() -> None:
    pool, sentinels = master("redis+sentinel://one,two/mymaster?socket_timeout=2")
    assert {options["socket_timeout"] for options in (pool.connection_kwargs, *sentinels)} == {2}


def test_sentinels_have_a_password_and_tls_of_their_own() -> None:
    pool, sentinels = master(
        "rediss+sentinel://one,two/mymaster?ssl_ca_certs=/ca.pem"
        "&sentinel_username=asker&sentinel_password=s%26cret"
    )
    assert pool.connection_class is SentinelManagedSSLConnection
    assert "password" not in pool.connection_kwargs
    for options in (pool.connection_kwargs, *sentinels):
        assert (options["ssl_ca_certs"], options["ssl_check_hostname"]) == ("/ca.pem", True)
    assert {(one["username"], one["password"]) for one in sentinels} == {("asker", "s&cret")}


async def test_what_is_closed_takes_its_connections_to_sentinels_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = client_of("redis+sentinel://one,two/mymaster", 50)
    assert isinstance(client, Redis)
    pool = client.connection_pool
    assert isinstance(pool, SentinelConnectionPool)
    closed: list[Redis] = []

    async def aclose(client: Redis) -> None:
        closed.append(client)

    monkeypatch.setattr(Redis, "aclose", aclose)
    await close(client)
    assert closed == [client, *pool.sentinel_manager.sentinels]


def test_a_cluster() -> None:
    client = client_of(f"redis+cluster://{WRITTEN}@10.0.0.1,10.0.0.2:7000/0", 50)
    assert isinstance(client, RedisCluster)
    assert list(client.nodes_manager.startup_nodes) == ["10.0.0.1:6379", "10.0.0.2:7000"]
    expected = {"socket_timeout": NODE_SECONDS, "max_connections": 50}
    assert (CREDENTIALS | expected).items() <= options_of(client).items()


@pytest.mark.parametrize(
    "url",
    [
        "redis.example.com:6379",
        "http://redis.example.com",
        "redis://app:secret/word@redis.example.com",
        "redis://redis.example.com/0?socket_timeout=secret",
        "redis://redis.example.com/0?socket_timout=5",
        "redis+sentinel://one/mymaster?sentinel_socket_timeout=1",
        "redis+sentinel://one,two",
        "redis+sentinel://one,,two/mymaster",
        "redis+sentinel:///mymaster",
        "redis+cluster://",
        "redis+cluster://one/1",
        "redis+cluster://one?of=secret",
        "redis+ring://one",
        "unix+cluster:///redis.sock",
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


def a_replica() -> Redis:
    sentinel = Sentinel([("one", 26379)])  # type: ignore[no-untyped-call]
    return cast("Redis", sentinel.slave_for("mymaster"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Redis(decode_responses=True),
        lambda: RedisCluster("10.0.0.1", decode_responses=True),
        a_cluster_with_replicas,
        a_replica,
    ],
    ids=["decodes", "a cluster that decodes", "a cluster with replicas", "a replica"],
)
def test_a_client_that_would_mislead_is_refused(make: Callable[[], Redis | RedisCluster]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RedisStore(make())
    assert caught.value.code is Code.CONFIGURATION_INVALID
