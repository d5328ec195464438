"""The store on Redis: clients, and a pause after a failure."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

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

    `client` is a URL of `redis.from_url` or a client: a `Redis`, the client of
    `Sentinel(...).master_for(...)`, or a `RedisCluster`. With a URL, the store makes a client with
    `max_connections` connections in each event loop. The application closes its own client, and the
    store uses half of that client's connections. Raises ConfigurationError (configuration.invalid)
    for another URL.

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
            await self._reached.here().client.aclose()

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
