"""Limits the number and the duration of concurrent commands to one Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from redis.asyncio import BlockingConnectionPool, RedisCluster
from redis.exceptions import ClusterError, ReadOnlyError, RedisClusterException, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from fastapi_oidc.concurrency import ConcurrencyLimit
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.redis.circuit import Circuit
from fastapi_oidc.session.redis.clients import (
    DEFAULT_CONNECTIONS,
    Client,
    Pool,
    client_for,
    close,
    is_ours,
    leave,
    pool_of,
    reads_replicas,
)
from fastapi_oidc.session.redis.scripts import Script

LONG_FAILURE: Final = 0.25
"""Seconds after which a failed connection opens the circuit."""

LATE: Final = 2.0
"""Seconds: if a time limit is noticed later than this, the process was paused."""

# CLUSTERDOWN, a ClusterError, is an error reply, but a part of the cluster is missing.
_UNREACHED: Final = (RedisConnectionError, RedisClusterException, ClusterError, OSError)

_limits: WeakKeyDictionary[Pool, ConcurrencyLimit] = WeakKeyDictionary()
_circuits: WeakKeyDictionary[Pool, Circuit] = WeakKeyDictionary()


class _Reached(NamedTuple):
    """A client in one event loop, with the limits of its pool."""

    client: Client
    limit: ConcurrencyLimit
    circuit: Circuit


class Connections:
    """Commands to one Redis; their concurrency is limited, so the pool always has connections.

    Further commands wait in order. A command that waits and runs longer than `timeout` seconds
    raises TimeoutError. After that commands raise RedisUnresponsiveError immediately, except for
    one probe at a time, until Redis replies.

    All `Connections` of one pool share its limit: all of its connections if `client_of` made the
    pool or it blocks, else half of them (at most 50), because the application may use the client
    too. A client from a URL is made again for each event loop, because connections belong to the
    event loop that opened them.
    """

    def __init__(self, client: Client, timeout: float) -> None:
        _require_usable(client)
        self._given, self._timeout = client, timeout
        self.is_cluster = isinstance(client, RedisCluster)
        self._reached: dict[asyncio.AbstractEventLoop, _Reached] = {}

    @property
    def client(self) -> Client:
        """The client of the running event loop."""
        return self._here().client

    async def run(self, command: Callable[[Any], Awaitable[Any]]) -> Any:
        """The reply to `command`; texts are bytes."""
        here = self._here()
        if not here.circuit.is_open:
            return await _send(here, command, self._timeout)
        with here.circuit.probe(self._timeout) as seconds:
            return await _send(here, command, seconds)

    async def run_script(
        self, script: Script, keys: Sequence[str], args: Sequence[str | bytes | int]
    ) -> Any:
        """The result of `script`, as from `run`."""
        return await self.run(lambda client: script.run(client, keys, args))

    async def values(self, names: Sequence[str]) -> Sequence[bytes | None]:
        """The value of each name. The nodes of a cluster are read concurrently."""
        found: Sequence[bytes | None] = []
        if not names:
            return found
        if self.is_cluster:
            found = await self.run(lambda client: client.mget_nonatomic(names))
        else:
            # Not `client.mget`: its checks would take a tenth of the time of each request.
            found = await self.run(lambda client: client.execute_command("MGET", *names))
        return found

    async def aclose(self) -> None:
        """Close the connections of a pool that `client_of` made; a later command opens new ones."""
        if is_ours(pool_of(self._given)):
            await close(self.client)

    def _here(self) -> _Reached:
        loop = asyncio.get_running_loop()
        reached = self._reached.get(loop)
        if reached is None:
            for each in tuple(self._reached):  # other threads add theirs meanwhile
                if each.is_closed():
                    self._reached.pop(each, None)
            client = client_for(self._given, loop)
            pool = pool_of(client)
            limit = _limits.setdefault(pool, ConcurrencyLimit(_share_of(pool)))
            reached = _Reached(client, limit, _circuits.setdefault(pool, Circuit()))
            self._reached[loop] = reached
        return reached


async def _send(here: _Reached, command: Callable[[Any], Awaitable[Any]], seconds: float) -> Any:
    began = time.monotonic()
    sent = inf
    try:
        async with asyncio.timeout(seconds), here.limit.slot():
            sent = time.monotonic()
            reply = await _reply(here.client, command)
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
    except ResponseError:
        here.circuit.close()
        raise
    here.circuit.close()
    return reply


async def _reply(client: Client, command: Callable[[Any], Awaitable[Any]]) -> Any:
    try:
        return await command(client)
    except ReadOnlyError:
        await leave(client)
        raise


def _require_usable(client: Client) -> None:
    if pool_of(client).connection_kwargs.get("decode_responses"):
        fault = "make the Redis client without decode_responses"
    elif reads_replicas(client):
        fault = "make a Redis client of the master: a replica may not have the latest sign-outs"
    else:
        return
    raise ConfigurationError(Code.CONFIGURATION_INVALID, fault)


def _share_of(pool: Pool) -> int:
    """The number of connections that commands may use: of a pool, or to each cluster node."""
    if isinstance(pool, RedisCluster):
        allowed = int(pool.connection_kwargs["max_connections"])
    else:
        allowed = pool.max_connections
    if is_ours(pool) or isinstance(pool, BlockingConnectionPool):
        return allowed
    return max(1, min(allowed // 2, DEFAULT_CONNECTIONS))
