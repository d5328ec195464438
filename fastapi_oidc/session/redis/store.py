"""A store on Redis: one key for each value."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.exceptions import ClusterError, ReadOnlyError, RedisClusterException, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from fastapi_oidc.concurrency import PerLoop
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.outage import Place, unavailable_as
from fastapi_oidc.session.redis.circuit import Circuit
from fastapi_oidc.session.redis.clients import Client, client_of, close, options_of, reads_replicas
from fastapi_oidc.session.store import DEFAULT_TIMEOUT, Cell, Store, Stored

DEFAULT_PREFIX: Final = "fastapi_oidc:"
"""The prefix of every key."""

DEFAULT_CONNECTIONS: Final = 50

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
local value = string.sub(stored, {_DIGITS + 1})
if redis.sha1hex(value) ~= ARGV[1] then return {{value, now - string.sub(stored, 1, {_DIGITS})}} end
if ARGV[2] == '' then redis.call('DEL', KEYS[1])
else redis.call('SET', KEYS[1], now .. ARGV[2], 'EXAT', ARGV[3]) end
"""

Command = Callable[[Any], Awaitable[Any]]


class _Reached(NamedTuple):
    """The client of one event loop, to which its connections belong, and its limits."""

    client: Client
    slots: asyncio.Semaphore
    circuit: Circuit


class RedisStore(Store):
    """Values on Redis 7 or Valkey: one server, a master behind sentinels, or a cluster.

    `client` is a URL, from which the store makes a client with `max_connections` connections in
    each event loop, or a client, which stays the application's to close, and of which the store
    uses half of the connections. A URL is as `redis.from_url` takes it, or
    `redis+sentinel://host,host/service/0` or `redis+cluster://host,host`, and the same with
    `rediss` for TLS. Raises ConfigurationError (configuration.invalid) for another.

    Each operation is one command of at most `timeout` seconds, its wait for a connection included,
    and raises SessionError (session.store_unavailable) when Redis is unavailable. After a command
    without a reply, one probe at a time is sent until Redis replies.
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
        names = [self._prefix + key for key in keys]

        async def read(client: Any) -> Any:
            if isinstance(client, RedisCluster):
                return await client.mget_nonatomic(names)
            # Not `client.mget`: its checks would take a tenth of the time of each request.
            return await client.execute_command("MGET", *names)

        found = await self._run(read, "read") if names else []
        return [b"" if stored is None else stored[_DIGITS:] for stored in found]

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        """See `Store.swap`."""
        expected = "" if before is None else hashlib.sha1(before, usedforsecurity=False).hexdigest()
        arguments = (self._prefix + key, expected, after.value, after.expires_at)
        found = await self._run(lambda client: client.eval(_SWAP, 1, *arguments), "write")
        return None if found is None else Stored(found[0], found[1] / 1e6)

    async def aclose(self) -> None:
        """Close the connections that the store opened; a client of the application stays open."""
        if isinstance(self._given, str):
            await close(self._reached.here().client)

    async def _run(self, command: Command, doing: str) -> Any:
        """The reply to `command`; texts are bytes."""
        with unavailable_as(self._place, doing):
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


async def _send(here: _Reached, command: Command, seconds: float) -> Any:
    began = time.monotonic()
    sent = inf
    try:
        async with asyncio.timeout(seconds), here.slots:
            sent = time.monotonic()
            reply = await command(here.client)
    except RedisTimeoutError:
        here.circuit.open()
        raise
    except TimeoutError:
        now = time.monotonic()
        # Redis may be responsive if the command waited for a slot or the process was paused.
        if now - sent >= seconds / 2 and now - began < seconds + LATE:
            here.circuit.open()
        raise
    except _UNREACHED:
        # redis-py also raises these after a timeout of a new connection or a sentinel.
        if time.monotonic() - began >= LONG_FAILURE:
            here.circuit.open()
        raise
    except ResponseError as error:
        here.circuit.close()
        # Idle connections may lead to a former master; a cluster's nodes redirect.
        if isinstance(error, ReadOnlyError) and isinstance(here.client, Redis):
            await here.client.connection_pool.disconnect(inuse_connections=False)
        raise
    here.circuit.close()
    return reply


def _require_usable(client: Client) -> None:
    if options_of(client).get("decode_responses"):
        fault = "make the Redis client without decode_responses"
    elif reads_replicas(client):
        fault = "make a Redis client of the master: a replica may not have the latest sign-outs"
    else:
        return
    raise ConfigurationError(Code.CONFIGURATION_INVALID, fault)


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
