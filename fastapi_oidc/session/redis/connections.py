"""The one place that makes Redis clients, and that bounds what is asked of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from fastapi_oidc.errors import Code, ConfigurationError

try:
    from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
except ModuleNotFoundError as missing:
    explanation = "stores and locks on Redis need: pip install 'fastapi-oidc-vmm[redis]'"
    raise ModuleNotFoundError(explanation, name=missing.name) from None

DEFAULT_PREFIX: Final = "fastapi_oidc:"
DEFAULT_CONNECTIONS: Final = 50
PATIENCE: Final = 10.0
"""Seconds that one command may take, its waiting for a turn included."""

_ours: WeakSet[ConnectionPool] = WeakSet()
_turns: WeakKeyDictionary[ConnectionPool, asyncio.Semaphore] = WeakKeyDictionary()


def client_of(url: str, max_connections: int = DEFAULT_CONNECTIONS) -> Redis:
    """A client with a pool of its own, which opens connections when they are needed.

    A connection that Redis has dropped meanwhile is replaced once: every command here may be
    repeated.
    """
    client = Redis.from_url(url, max_connections=max_connections, retry=Retry(NoBackoff(), 1))
    _ours.add(client.connection_pool)
    return client


class Connections:
    """Commands to one Redis, of which so many run at a time that no pool is ever used up.

    The others wait for their turn, in order; what waits or takes too long raises TimeoutError. All
    that is made of one client shares the turns of its pool: all of them if the pool is ours or
    waits itself, else half of them (at most 50), since the application may use the client too.
    """

    def __init__(self, client: Redis) -> None:
        pool = client.connection_pool
        if pool.connection_kwargs.get("decode_responses"):
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID, "make the Redis client without decode_responses"
            )
        self.client = client
        self._turns = _turns.setdefault(pool, asyncio.Semaphore(_share_of(pool)))

    async def run(self, command: Callable[[Any], Awaitable[Any]]) -> Any:
        """The answer of `command`, when it has its turn; texts are bytes."""
        async with asyncio.timeout(PATIENCE), self._turns:
            return await command(self.client)

    def reach_the_same_as(self, other: Connections) -> bool:
        """Whether both lead to the same database."""
        place = _place(self.client)
        return self.client is other.client or (place is not None and place == _place(other.client))

    async def aclose(self) -> None:
        """Closes the connections, if the pool is ours; a later command opens new ones."""
        if self.client.connection_pool in _ours:
            await self.client.aclose()


def _share_of(pool: ConnectionPool) -> int:
    if pool in _ours or isinstance(pool, BlockingConnectionPool):
        return pool.max_connections
    return max(1, min(pool.max_connections // 2, DEFAULT_CONNECTIONS))


def _place(client: Redis) -> tuple[object, ...] | None:
    """Host, port or path, and number of the database; None where a client hides them."""
    pool = client.connection_pool
    place = tuple(pool.connection_kwargs.get(name) for name in ("host", "port", "path"))
    return (*place, pool.connection_kwargs.get("db") or 0) if any(place) else None
