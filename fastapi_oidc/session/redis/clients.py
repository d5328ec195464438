"""Makes Redis clients from URLs: for one server, a master behind sentinels, or a cluster."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from typing import Any, Final, NamedTuple, Self, TypeAlias
from urllib.parse import unquote
from weakref import ReferenceType, WeakKeyDictionary, ref

from fastapi_oidc.errors import Code, ConfigurationError

try:
    from redis.asyncio import ConnectionPool, Redis, RedisCluster, Sentinel
    from redis.asyncio.cluster import ClusterNode
    from redis.asyncio.connection import SSLConnection, parse_url
    from redis.asyncio.retry import Retry
    from redis.asyncio.sentinel import SentinelConnectionPool
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisClusterException
except ModuleNotFoundError as missing:
    explanation = "a store on Redis needs: pip install 'fastapi-oidc-vmm[redis]'"
    raise ModuleNotFoundError(explanation, name=missing.name) from None

DEFAULT_PREFIX: Final = "fastapi_oidc:"
"""The prefix of every key."""

DEFAULT_CONNECTIONS: Final = 50
NODE_SECONDS: Final = 0.5
"""Seconds that one of several nodes or sentinels may take before the next one is tried."""

SENTINEL_PORT: Final = 26379

Client: TypeAlias = Redis | RedisCluster
Pool: TypeAlias = ConnectionPool | RedisCluster
Options: TypeAlias = dict[str, Any]

_LIMITS: Final = dict.fromkeys(("socket_timeout", "socket_connect_timeout"), NODE_SECONDS)
_NO_URL: Final = (
    "a Redis URL is redis://[user:password@]host[:port]/0, rediss:// with TLS, unix://path, "
    "redis+sentinel://host,host/service/0 or redis+cluster://host,host; its parts are "
    "percent-encoded"
)
_urls: WeakKeyDictionary[Pool, tuple[str, int]] = WeakKeyDictionary()
# The event loop that uses the pool itself, and the clients of the other loops.
_loops: WeakKeyDictionary[Pool, ReferenceType[AbstractEventLoop]] = WeakKeyDictionary()
_copies: WeakKeyDictionary[Pool, dict[AbstractEventLoop, Client]] = WeakKeyDictionary()


def client_of(url: str, max_connections: int = DEFAULT_CONNECTIONS) -> Client:
    """A client with connections of its own, which it opens when they are needed.

    A dropped connection is replaced once: every command here may be repeated. Raises
    ConfigurationError (configuration.invalid) for an invalid URL.
    """
    usual: Options = {"max_connections": max_connections, "retry": Retry(NoBackoff(), 1)}
    try:
        client = _make(url, usual)
        if isinstance(client, Redis):
            _require_known_options(client.connection_pool)
    except (ValueError, TypeError, RedisClusterException) as error:
        # Its text may contain a part of a password that was not percent-encoded.
        raised = type(error).__name__
        raise ConfigurationError(Code.CONFIGURATION_INVALID, _NO_URL, raised=raised) from None
    _urls[pool_of(client)] = url, max_connections
    return client


def pool_of(client: Client) -> Pool:
    """The pool of its connections, which other clients may share."""
    return client if isinstance(client, RedisCluster) else client.connection_pool


def is_ours(pool: Pool) -> bool:
    """Whether `client_of` made it, so the application does not use or close its connections."""
    return pool in _urls


def reads_replicas(client: Client) -> bool:
    """Whether it reads from replicas, which receive a write some time after the master."""
    if isinstance(client, RedisCluster):
        balances = getattr(client, "load_balancing_strategy", None) is not None
        return balances or client.read_from_replicas
    pool = client.connection_pool
    return isinstance(pool, SentinelConnectionPool) and not pool.is_master


def client_for(client: Client, loop: AbstractEventLoop) -> Client:
    """`client` in the event loop that uses it first; in another one, a client of the same URL.

    A client of the application is returned for every loop.
    """
    pool = pool_of(client)
    if pool not in _urls:
        return client
    if _loops.setdefault(pool, ref(loop))() is loop:
        return client
    copies = _copies.setdefault(pool, {})
    for each in tuple(copies):  # other threads add theirs meanwhile
        if each.is_closed():
            copies.pop(each, None)
    if loop not in copies:
        copies[loop] = client_of(*_urls[pool])
    return copies[loop]


async def close(client: Client) -> None:
    """Close its connections, also those to sentinels; a later command opens new ones."""
    await client.aclose()
    pool = pool_of(client)
    if isinstance(pool, SentinelConnectionPool):
        for sentinel in pool.sentinel_manager.sentinels:
            await sentinel.aclose()


async def leave(client: Client) -> None:
    """Close idle connections, which may lead to a former master.

    A cluster's nodes redirect to the new master.
    """
    if isinstance(client, Redis):
        await client.connection_pool.disconnect(inuse_connections=False)


def _make(url: str, usual: Options) -> Client:
    address = _Address.parse(url)
    if address.shape == "sentinel":
        return _master(address, usual)
    if address.shape == "cluster":
        return _cluster(address, usual)
    checks = {"ssl_check_hostname": True} if url.lower().startswith("rediss:") else {}
    return Redis.from_url(url, **usual, **checks)


def _require_known_options(pool: ConnectionPool) -> None:
    """Raise TypeError, as every command would."""
    pool.connection_class(**pool.connection_kwargs)


class _Address(NamedTuple):
    """A URL in parts; each host has the options that redis-py parses from a URL of it alone."""

    shape: str
    service: str
    hosts: list[Options]

    @classmethod
    def parse(cls, url: str) -> Self:
        """Raises ValueError."""
        scheme, _, rest = url.partition("://")
        transport, _, shape = scheme.lower().partition("+")
        if not shape:
            return cls("", "", [])
        rest, _, query = rest.partition("?")
        authority, _, path = rest.partition("/")
        service, _, database = path.partition("/") if shape == "sentinel" else ("", "", path)
        if shape not in ("sentinel", "cluster") or (shape == "sentinel") != bool(service):
            raise ValueError
        user, at, hosts = authority.rpartition("@")
        urls = [f"{transport}://{user}{at}{host}/{database}?{query}" for host in hosts.split(",")]
        parsed: list[Options] = [dict(parse_url(one)) for one in urls]
        if not all("host" in host for host in parsed):
            raise ValueError
        return cls(shape, unquote(service), parsed)

    def options(self) -> Options:
        """The options that all hosts share."""
        options = {name: self.hosts[0][name] for name in self.hosts[0].keys() - {"host", "port"}}
        if options.pop("connection_class", None) is SSLConnection:
            options = {"ssl": True, "ssl_check_hostname": True, **options}
        return options


def _master(address: _Address, usual: Options) -> Redis:
    options = address.options()
    shared = {name: options[name] for name in options if name.startswith(("ssl", "socket_"))}
    sentinel_options = {"retry": Retry(NoBackoff(), 0), **_LIMITS, **shared}
    for name in ("username", "password"):
        sentinel_options[name] = options.pop(f"sentinel_{name}", None)
    hosts = [(host["host"], host.get("port", SENTINEL_PORT)) for host in address.hosts]
    sentinel = Sentinel(hosts, sentinel_kwargs=sentinel_options)  # type: ignore[no-untyped-call]
    master: Redis = sentinel.master_for(address.service, **{**usual, **options})
    return master


def _cluster(address: _Address, usual: Options) -> RedisCluster:
    nodes = [ClusterNode(host["host"], host.get("port", 6379)) for host in address.hosts]
    return RedisCluster(startup_nodes=nodes, **{**usual, **_LIMITS, **address.options()})
