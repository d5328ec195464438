"""The store on Redis: clients, and a pause after a failure."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import ClusterError, ReadOnlyError, RedisClusterException, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from fastapi_oidc.concurrency import PerLoop, TimeLimit
from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.session.store import DEFAULT_TIMEOUT, Cell, Place, Store, Stored, ask_store

PROBE_SECONDS: Final = 1.0
"""Time limit of the first probe, in seconds; it doubles with each further probe."""

PROBE_PAUSE: Final = 1.0
"""Seconds between two probes, in which every command fails immediately."""


class RedisUnresponsiveError(TimeoutError):
    """The command was not sent: Redis has not responded, and the next probe is not due."""


class Circuit:
    """Decides which commands are sent, and the time limit of each.

    While it is closed, every command is sent. It opens when a command has no reply in time: then
    one command at a time is sent as a probe, PROBE_PAUSE after the previous one, and the others
    fail immediately. The time limit of probes grows, so a slow Redis is found again. A reply closes
    it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.is_open, self.replies = False, 0
        self._limit = PROBE_SECONDS
        self._next_probe = 0.0

    @contextmanager
    def probe(self, seconds: float) -> Iterator[float]:
        """The time limit of the command that is sent within the block, at most `seconds`.

        Raises RedisUnresponsiveError if no probe is due.
        """
        now = self._clock()
        if now < self._next_probe:
            raise RedisUnresponsiveError("it has not responded, and was not asked again")
        limit = min(seconds, self._limit)
        self._limit *= 2
        self._next_probe = now + limit + PROBE_PAUSE
        try:
            yield limit
        finally:
            self._next_probe = self._clock() + PROBE_PAUSE

    def open(self) -> None:
        """A command had no reply in time; the next command may be the first probe."""
        self.is_open = True

    def close(self) -> None:
        """A command had a reply."""
        self.is_open = False
        self.replies += 1
        self._limit = PROBE_SECONDS


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


DEFAULT_PREFIX: Final = "fastapi_oidc:"
"""The prefix of every key."""

DEFAULT_CONNECTIONS: Final = 50

SLOT_PATIENCE: Final = 6
"""How many times its time limit a command waits for a connection while Redis replies to others."""

LONG_FAILURE: Final = 0.25
"""Seconds after which a failed connection opens the circuit."""

LATE: Final = 2.0
"""Seconds: if a time limit is noticed later than this, the process was paused."""

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


class _Reached(NamedTuple):
    """The client of one event loop, to which its connections belong, and its limits."""

    client: Client
    slots: asyncio.Semaphore
    circuit: Circuit


class RedisStore(Store):
    """Values on Redis 7 or Valkey: one server, a master behind sentinels, or a cluster.

    `client` is a URL or a client. With a URL, the store makes a client with `max_connections`
    connections in each event loop. The application closes its own client, and the store uses half
    of that client's connections. A URL is one of `redis.from_url`,
    `redis+sentinel://host,host/service/0` or `redis+cluster://host,host`; `rediss` in place of
    `redis` means TLS. Raises ConfigurationError (configuration.invalid) for another URL.

    Each operation is one command of at most `timeout` seconds. It waits as long for a connection,
    or up to six times as long while Redis replies to others. It raises SessionError
    (session.store_unavailable) when Redis is unavailable. After a command without a reply, one
    probe at a time is sent until Redis replies.
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
            await close(self._reached.here().client)

    async def _run(self, command: Command, doing: str) -> Any:
        """The reply to `command`; texts are bytes."""
        return await ask_store(self._reply_to(command), self._place, doing)

    async def _reply_to(self, command: Command) -> Any:
        here = self._reached.here()
        if not here.circuit.is_open:
            return await _send(here, command, self._timeout)
        with here.circuit.probe(self._timeout) as seconds:
            return await _send(here, command, seconds)

    def _reach(self) -> _Reached:
        client = self._client()
        limit = self._max_connections if isinstance(self._given, str) else _share_of(client)
        return _Reached(client, asyncio.Semaphore(limit), Circuit())

    def _client(self) -> Client:
        given = self._given
        return client_of(given, self._max_connections) if isinstance(given, str) else given


def _values(found: Sequence[bytes | None]) -> Sequence[bytes]:
    """The values without their times."""
    return [b"" if stored is None else stored[_DIGITS:] for stored in found]


async def _send(here: _Reached, command: Command, seconds: float) -> Any:
    await (_wait_for_slot(here, seconds) if here.slots.locked() else here.slots.acquire())
    sent, replies = time.monotonic(), here.circuit.replies
    try:
        async with TimeLimit(seconds):
            reply = await command(here.client)
    except RedisTimeoutError:
        here.circuit.open()
        raise
    except TimeoutError:
        # Otherwise the process was paused, or is so slow that only others had their reply.
        if time.monotonic() - sent < seconds + LATE and here.circuit.replies == replies:
            here.circuit.open()
        raise
    except _UNREACHED:
        # redis-py also raises these after a timeout of a new connection or a sentinel.
        if time.monotonic() - sent >= LONG_FAILURE:
            here.circuit.open()
        raise
    except ResponseError as error:
        here.circuit.close()
        # Idle connections may lead to a former master; a cluster's nodes redirect.
        if isinstance(error, ReadOnlyError) and isinstance(here.client, Redis):
            await here.client.connection_pool.disconnect(inuse_connections=False)
        raise
    finally:
        here.slots.release()
    here.circuit.close()
    return reply


async def _wait_for_slot(here: _Reached, seconds: float) -> None:
    """Wait for a connection: the queue moves for as long as Redis replies to others."""
    circuit, slots, was_open = here.circuit, here.slots, here.circuit.is_open
    async with TimeLimit(SLOT_PATIENCE * seconds), TimeLimit(seconds, lambda: circuit.replies):
        await slots.acquire()
    if circuit.is_open and not was_open:
        slots.release()
        raise RedisUnresponsiveError("it has not responded to an earlier command")


async def _memory_of(client: Any) -> list[Options]:
    """What each node says of its memory."""
    if not isinstance(client, RedisCluster):
        return [await client.info("memory")]
    of_nodes = await client.info("memory", target_nodes=RedisCluster.ALL_NODES)
    return list(of_nodes.values())


def _require_usable(client: Client) -> None:
    if options_of(client).get("decode_responses"):
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
    options = options_of(client)
    place = options.get("path") or f"{options.get('host', '')}:{options.get('port', '')}"
    return Place(f"redis://{place.strip(':')}", tuple(filter(None, [options.get("password")])))
