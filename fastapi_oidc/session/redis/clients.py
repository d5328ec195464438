"""Makes Redis clients from URLs: for one server, a master behind sentinels, or a cluster."""

from __future__ import annotations

from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from redis.asyncio import ConnectionPool, Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import RedisClusterException

from fastapi_oidc.errors import Code, ConfigurationError

NODE_SECONDS: Final = 0.5
"""Seconds that one of several nodes or sentinels may take before the next one is tried."""

SENTINEL_PORT: Final = 26379

Client: TypeAlias = Redis | RedisCluster
Options: TypeAlias = dict[str, Any]

_LIMITS: Final = dict.fromkeys(("socket_timeout", "socket_connect_timeout"), NODE_SECONDS)
_NO_URL: Final = (
    "a Redis URL is redis://[user:password@]host[:port]/0, rediss:// with TLS, unix://path, "
    "redis+sentinel://host,host/service/0 or redis+cluster://host,host; its parts are "
    "percent-encoded"
)


def client_of(url: str, max_connections: int) -> Client:
    """A client with connections of its own, which it opens when they are needed.

    A dropped connection is replaced once: every command here may be repeated. Raises
    ConfigurationError (configuration.invalid) for an invalid URL.
    """
    try:
        client = _make(url, {"max_connections": max_connections, "retry": Retry(NoBackoff(), 1)})
        if isinstance(client, Redis):  # raises TypeError for an unknown option, as a command would
            pool: ConnectionPool = client.connection_pool
            pool.connection_class(**pool.connection_kwargs)
    except (ValueError, TypeError, KeyError, RedisClusterException) as error:
        # Its text may contain a part of a password that was not percent-encoded.
        raised = type(error).__name__
        raise ConfigurationError(Code.CONFIGURATION_INVALID, _NO_URL, raised=raised) from None
    return client


def options_of(client: Client) -> Options:
    """The options of its connections."""
    pool = client if isinstance(client, RedisCluster) else client.connection_pool
    return dict(pool.connection_kwargs)


def reads_replicas(client: Client) -> bool:
    """Whether it reads from replicas, which receive a write some time after the master."""
    if isinstance(client, RedisCluster):
        balances = getattr(client, "load_balancing_strategy", None) is not None
        return balances or client.read_from_replicas
    pool = client.connection_pool
    return isinstance(pool, SentinelConnectionPool) and not pool.is_master


async def close(client: Client) -> None:
    """Close its connections, also those to sentinels; a later command opens new ones."""
    await client.aclose()
    pool = None if isinstance(client, RedisCluster) else client.connection_pool
    if isinstance(pool, SentinelConnectionPool):
        for sentinel in pool.sentinel_manager.sentinels:
            await sentinel.aclose()


def _make(url: str, usual: Options) -> Client:
    """Each host has the options that redis-py parses from a URL of it alone."""
    scheme, _, rest = url.partition("://")
    transport, _, shape = scheme.lower().partition("+")
    if not shape:
        checks = {"ssl_check_hostname": True} if transport == "rediss" else {}
        return Redis.from_url(url, **usual, **checks)
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    service, _, database = path.partition("/") if shape == "sentinel" else ("", "", path)
    if (shape, bool(service)) not in (("sentinel", True), ("cluster", False)):
        raise ValueError
    user, at, names = authority.rpartition("@")
    urls = [f"{transport}://{user}{at}{name}/{database}?{query}" for name in names.split(",")]
    hosts: list[Options] = [dict(parse_url(one)) for one in urls]
    options = {name: hosts[0][name] for name in hosts[0].keys() - {"host", "port"}}
    if options.pop("connection_class", None) is SSLConnection:
        options = {"ssl": True, "ssl_check_hostname": True, **options}
    if shape == "sentinel":
        return _master(unquote(service), hosts, options, usual)
    nodes = [ClusterNode(host["host"], host.get("port", 6379)) for host in hosts]
    return RedisCluster(startup_nodes=nodes, **{**usual, **_LIMITS, **options})


def _master(service: str, hosts: list[Options], options: Options, usual: Options) -> Redis:
    shared = {name: options[name] for name in options if name.startswith(("ssl", "socket_"))}
    sentinel_options = {"retry": Retry(NoBackoff(), 0), **_LIMITS, **shared}
    for name in ("username", "password"):
        sentinel_options[name] = options.pop(f"sentinel_{name}", None)
    addresses = [(host["host"], host.get("port", SENTINEL_PORT)) for host in hosts]
    sentinel = Sentinel(addresses, sentinel_kwargs=sentinel_options)  # type: ignore[no-untyped-call]
    master: Redis = sentinel.master_for(service, **{**usual, **options})
    return master
