"""What a URL says is what the client does, and which clients of an application are refused."""

import re
from collections.abc import Callable
from typing import Any, cast

import pytest
import redis
from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import SSLConnection

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.redis.store import client_of, options_of

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
