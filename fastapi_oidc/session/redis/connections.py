"""Bounds what is asked of one Redis at a time, and for how long."""

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

DEFAULT_TIMEOUT: Final = 5.0
"""Seconds that one command may take, its waiting for a turn included."""

LONG_FAILURE: Final = 0.25
"""Seconds after which a connection that failed has made somebody wait."""

LATE: Final = 2.0
"""Seconds after its time at which a limit that is noticed says that this process was held up."""

# A node's CLUSTERDOWN, a ClusterError, is an error reply, but of a cluster that is not all there.
_UNREACHED: Final = (RedisConnectionError, RedisClusterException, ClusterError, OSError)

_limits: WeakKeyDictionary[Pool, ConcurrencyLimit] = WeakKeyDictionary()
_circuits: WeakKeyDictionary[Pool, Circuit] = WeakKeyDictionary()


class _Reached(NamedTuple):
    """A client in one event loop, and what bounds the commands of its pool."""

    client: Client
    limit: ConcurrencyLimit
    circuit: Circuit


class Connections:
    """Commands to one Redis, of which so many run at a time that no pool is ever used up.

    The others wait for their turn, in order. What waits or takes longer than `timeout` seconds
    raises TimeoutError; from then on commands raise RedisMuteError at once, but for one at a time,
    until there is a reply.

    All that is made of one client shares the limit of its pool: all of its connections if the pool
    is ours or waits itself, else half of them (at most 50), since the application may use the
    client too. A client that was made of a URL is made again for each further event loop: its
    connections belong to the loop that opened them.
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
        """The reply to `command`, when it has its turn; texts are bytes."""
        here = self._here()
        if not here.circuit.is_open:
            return await _sent(here, command, self._timeout)
        with here.circuit.probe(self._timeout) as seconds:
            return await _sent(here, command, seconds)

    async def run_script(
        self, script: Script, keys: Sequence[str], args: Sequence[str | bytes | int]
    ) -> Any:
        """What `script` returns, as `run`."""
        return await self.run(lambda client: script.run(client, keys, args))

    async def values(self, names: Sequence[str]) -> Sequence[bytes | None]:
        """What stands under each name; of a cluster, its nodes are asked at the same time."""
        found: Sequence[bytes | None]
        if self.is_cluster:
            found = await self.run(lambda client: client.mget_nonatomic(names))
        else:
            # Not `client.mget`: at each request its own checks would be a tenth of the time.
            found = await self.run(lambda client: client.execute_command("MGET", *names))
        return found

    async def aclose(self) -> None:
        """Close the connections, if the pool is ours; a later command opens new ones."""
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


async def _sent(here: _Reached, command: Callable[[Any], Awaitable[Any]], seconds: float) -> Any:
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
        # Waiting for a turn, or a process that is short of time, is no silence of Redis.
        if now - sent >= seconds / 2 and now - began < seconds + LATE:
            here.circuit.open()
        raise
    except _UNREACHED:
        # redis-py says so too where a new connection or a sentinel was waited for in vain.
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
        fault = "make a Redis client of the master: a replica may not know yet who signed out"
    else:
        return
    raise ConfigurationError(Code.CONFIGURATION_INVALID, fault)


def _share_of(pool: Pool) -> int:
    """How many connections of a pool are for us, or of a cluster's client to each node."""
    if isinstance(pool, RedisCluster):
        allowed = int(pool.connection_kwargs["max_connections"])
    else:
        allowed = pool.max_connections
    if is_ours(pool) or isinstance(pool, BlockingConnectionPool):
        return allowed
    return max(1, min(allowed // 2, DEFAULT_CONNECTIONS))
