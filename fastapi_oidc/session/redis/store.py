"""The store on Redis: its clients, and a Redis that does not respond."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import ClusterError, ReadOnlyError, RedisClusterException, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from fastapi_oidc.concurrency import PerLoop, TimeLimit
from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.session.store import DEFAULT_TIMEOUT, Cell, Place, Store, Stored, ask_store


class RedisUnresponsiveError(TimeoutError):
    """The command was not sent: Redis has not responded to an earlier one."""


Client: TypeAlias = Redis | RedisCluster
Options: TypeAlias = dict[str, Any]

_NO_URL: Final = (
    "a Redis URL is redis://[user:password@]host[:port]/0, rediss:// with TLS or unix://path; its "
    "parts are percent-encoded. For Sentinel or a cluster, give RedisStore a client of redis-py"
)


def client_of(url: str, max_connections: int) -> Redis:
    """A client with connections of its own, which it opens when they are needed.

    A dropped connection is replaced once: every command here may be repeated. Raises
    ConfigurationError (configuration.invalid) for an invalid URL.
    """
    checks = {"ssl_check_hostname": True} if url.startswith("rediss:") else {}
    retry = Retry(NoBackoff(), 1)
    try:
        client = Redis.from_url(url, max_connections=max_connections, retry=retry, **checks)
        pool: ConnectionPool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # raises TypeError for an unknown option
    except (ValueError, TypeError) as error:
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


DEFAULT_PREFIX: Final = "fastapi_oidc:"
"""The prefix of every key."""

DEFAULT_CONNECTIONS: Final = 50

LONG_FAILURE: Final = 0.25
"""Seconds after which a failed connection means that Redis is silent."""

# CLUSTERDOWN, a ClusterError, is an error reply, but a part of the cluster is missing.
_UNREACHED: Final = (RedisConnectionError, RedisClusterException, ClusterError, OSError)

# Before each value stands the time of Redis when it was written, in microseconds.
_DIGITS: Final = 16

# A value is compared by its SHA-1, so that it is not sent twice.
_SWAP: Final = f"""
local now = string.format('%010d%06d', unpack(redis.call('TIME')))
local stored = redis.call('GET', KEYS[1]) or now
local value, found = string.sub(stored, {_DIGITS + 1}), false
if redis.sha1hex(value) ~= ARGV[1] then found = {{value, now - string.sub(stored, 1, {_DIGITS})}}
elseif ARGV[2] == '' then redis.call('DEL', KEYS[1])
else redis.call('SET', KEYS[1], now .. ARGV[2], 'EXAT', ARGV[3]) end
local others = {{}}
for n = 2, #KEYS do others[n - 1] = redis.call('GET', KEYS[n]) end
return {{found, others}}
"""

Command = Callable[[Any], Awaitable[Any]]


class _Reached:
    """The client of one event loop, to which its connections belong.

    `is_silent`: the last command had no reply in time. Then one command at a time asks Redis, and
    the others fail at once.
    """

    def __init__(self, client: Client, connections: int) -> None:
        self.client, self.slots = client, asyncio.Semaphore(connections)
        self.is_silent = self._is_asked = False
        self._replies = 0

    async def reply_to(self, command: Command, seconds: float) -> Any:
        """The reply within `seconds`, which begin with the wait for a connection."""
        if not self.is_silent:
            return await self._send(command, seconds)
        if self._is_asked:
            raise RedisUnresponsiveError("it has not responded to an earlier command")
        self._is_asked = True
        try:
            return await self._send(command, seconds)
        finally:
            self._is_asked = False

    async def _send(self, command: Command, seconds: float) -> Any:
        began, replies = time.monotonic(), self._replies
        try:
            async with TimeLimit(seconds), self.slots:
                reply = await command(self.client)
        except (RedisTimeoutError, TimeoutError):
            # A process without processor time is slow to read what has arrived.
            self.is_silent = self.is_silent or self._replies == replies
            raise
        except _UNREACHED:
            # redis-py also raises these after a timeout of a new connection or a sentinel.
            self.is_silent = self.is_silent or time.monotonic() - began >= LONG_FAILURE
            raise
        except ResponseError as error:
            self._replied()
            # Idle connections may lead to a former master; a cluster's nodes redirect.
            if isinstance(error, ReadOnlyError) and isinstance(self.client, Redis):
                await self.client.connection_pool.disconnect(inuse_connections=False)
            raise
        self._replied()
        return reply

    def _replied(self) -> None:
        self.is_silent = False
        self._replies += 1


class RedisStore(Store):
    """Values on Redis 7 or Valkey: one server, a master behind sentinels, or a cluster.

    `client` is a URL of `redis.from_url` or a client: a `Redis`, the client of
    `Sentinel(...).master_for(...)`, or a `RedisCluster`. With a URL, the store makes a client with
    `max_connections` connections in each event loop. The application closes its own client, and the
    store uses half of that client's connections. Raises ConfigurationError (configuration.invalid)
    for another URL.

    Each operation is one command of at most `timeout` seconds, with its wait for a connection. It
    raises SessionError (session.store_unavailable) when Redis is unavailable. After a command
    without a reply, one command at a time is sent until Redis replies; the others fail at once.
    """

    def __init__(
        self,
        client: Client | str,
        *,
        prefix: str = DEFAULT_PREFIX,
        timeout: float = DEFAULT_TIMEOUT,
        max_connections: int = DEFAULT_CONNECTIONS,
    ) -> None:
        self._given, self._prefix, self._timeout = client, prefix, timeout
        self._max_connections = max_connections
        self._place = Place.of(client) if isinstance(client, str) else _place_of(client)
        _require_usable(self._client())
        self._reached = PerLoop(self._reach)

    async def read(self, keys: Sequence[str], /) -> Sequence[bytes]:
        """See `Store.read`. The nodes of a cluster are read concurrently."""
        if not keys:
            return []
        names = [self._prefix + key for key in keys]

        async def read(client: Any) -> Any:
            if isinstance(client, RedisCluster):
                return await client.mget_nonatomic(names)
            # Not `client.mget`: its checks would take a tenth of the time of each request.
            return await client.execute_command("MGET", *names)

        return _values(await self._run(read, "read"))

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        """See `Store.swap`."""
        found, _ = await self._swap([key], before, after)
        return found

    async def swap_and_read(
        self, key: str, before: bytes | None, after: Cell, others: Sequence[str], /
    ) -> tuple[Stored | None, Sequence[bytes]]:
        """See `Store.swap_and_read`. A cluster has the keys in several places."""
        if isinstance(self._reached.here().client, RedisCluster):
            return await super().swap_and_read(key, before, after, others)
        return await self._swap([key, *others], before, after)

    async def _swap(
        self, keys: Sequence[str], before: bytes | None, after: Cell
    ) -> tuple[Stored | None, Sequence[bytes]]:
        expected = "" if before is None else hashlib.sha1(before, usedforsecurity=False).hexdigest()
        names = [self._prefix + key for key in keys]
        arguments = (len(names), *names, expected, after.value, after.expires_at)
        found, others = await self._run(lambda client: client.eval(_SWAP, *arguments), "write")
        return None if found is None else Stored(found[0], found[1] / 1e6), _values(others)

    async def may_evict(self) -> bool:
        """Whether Redis deletes values that have not expired when its memory is full.

        Then it forgets which sessions have ended. Needs the permission `+info`.
        """
        found = await self._run(_memory_of, "tell its maxmemory-policy")
        limited = [each["maxmemory_policy"] for each in found if each["maxmemory"]]
        return any(policy != "noeviction" for policy in limited)

    async def aclose(self) -> None:
        """Close the connections that the store opened; a client of the application stays open."""
        if isinstance(self._given, str):
            await self._reached.here().client.aclose()

    async def _run(self, command: Command, doing: str) -> Any:
        """The reply to `command`; texts are bytes."""
        reply = self._reached.here().reply_to(command, self._timeout)
        return await ask_store(reply, self._place, doing)

    def _reach(self) -> _Reached:
        client = self._client()
        limit = self._max_connections if isinstance(self._given, str) else _share_of(client)
        return _Reached(client, limit)

    def _client(self) -> Client:
        given = self._given
        return client_of(given, self._max_connections) if isinstance(given, str) else given


def _values(found: Sequence[bytes | None]) -> Sequence[bytes]:
    """The values without their times."""
    return [b"" if stored is None else stored[_DIGITS:] for stored in found]


async def _memory_of(client: Any) -> list[Options]:
    """What each node says of its memory."""
    if not isinstance(client, RedisCluster):
        return [await client.info("memory")]
    of_nodes = await client.info("memory", target_nodes=RedisCluster.ALL_NODES)
    return list(of_nodes.values())


def _require_usable(client: object) -> None:
    if not isinstance(client, Redis | RedisCluster):
        fault = "RedisStore needs a client of redis.asyncio, or a URL"
    elif options_of(client).get("decode_responses"):
        fault = "make the Redis client without decode_responses"
    elif reads_replicas(client):
        fault = "make a Redis client of the master: a replica may not have the latest sign-outs"
    else:
        return
    raise misconfigured(fault)


def _share_of(client: Client) -> int:
    """The number of the application's connections that commands may use; of each cluster node."""
    if isinstance(client, RedisCluster):
        allowed = int(client.connection_kwargs["max_connections"])
    elif isinstance(pool := client.connection_pool, BlockingConnectionPool):
        return pool.max_connections
    else:
        allowed = pool.max_connections
    return max(1, min(allowed // 2, DEFAULT_CONNECTIONS))


def _place_of(client: Client) -> Place:
    """Where the application's client leads to."""
    password = options_of(client).get("password")
    return Place(f"redis://{_address_of(client)}", tuple(filter(None, [password])))


def _address_of(client: Client) -> str:
    """The server, the nodes that a cluster is found by, or the service of sentinels."""
    if isinstance(client, RedisCluster):
        return ",".join(client.nodes_manager.startup_nodes)
    if isinstance(pool := client.connection_pool, SentinelConnectionPool):
        return str(pool.service_name)
    options = options_of(client)
    return options.get("path") or f"{options.get('host', '')}:{options.get('port', '')}".strip(":")
