"""Clients of redis-py for sentinels and clusters, made as docs/sessions.md says."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff

Client = Redis | RedisCluster
Connect = Callable[[], Client]

ON_A_BUSY_MACHINE: Final = 5.0
SERVICE: Final = "sessions"


def cluster_client(
    ports: Sequence[int], *, seconds: float = ON_A_BUSY_MACHINE, **options: Any
) -> RedisCluster:
    """Of these nodes, each of which may take so many seconds."""
    nodes = [ClusterNode("127.0.0.1", port) for port in ports]
    return RedisCluster(startup_nodes=nodes, **_limits(seconds, retries=1), **options)


def master_client(
    ports: Sequence[int],
    *,
    seconds: float = ON_A_BUSY_MACHINE,
    sentinel_seconds: float | None = None,
    **options: Any,
) -> Redis:
    """Of the master that these sentinels name."""
    sentinel = Sentinel(  # type: ignore[no-untyped-call]
        [("127.0.0.1", port) for port in ports],
        sentinel_kwargs=_limits(sentinel_seconds or seconds, retries=0),
    )
    master: Redis = sentinel.master_for(SERVICE, **_limits(seconds, retries=1), **options)
    return master


async def close(client: Client) -> None:
    """Close its connections, also those to sentinels."""
    await client.aclose()
    if isinstance(client, Redis) and isinstance(client.connection_pool, SentinelConnectionPool):
        for sentinel in client.connection_pool.sentinel_manager.sentinels:
            await sentinel.aclose()


def _limits(seconds: float, retries: int) -> dict[str, Any]:
    limits = dict.fromkeys(["socket_timeout", "socket_connect_timeout"], seconds)
    return {**limits, "retry": Retry(NoBackoff(), retries)}
