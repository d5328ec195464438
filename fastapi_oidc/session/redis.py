"""The store on Redis 7 or Valkey, for any number of processes; needs the extra `redis`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from fastapi_oidc.concurrency import PerLoop, TimeLimit
from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.installation import extra
from fastapi_oidc.session.store import DEFAULT_TIMEOUT, Cell, Store, Stored, ask_store

with extra("redis", "a store on Redis needs"):
    from redis.asyncio import Redis, RedisCluster
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import ReadOnlyError

__all__ = ["DEFAULT_PREFIX", "RedisStore"]

Client: TypeAlias = Redis | RedisCluster
Command: TypeAlias = Callable[[Any], Awaitable[Any]]

DEFAULT_PREFIX: Final = "fastapi_oidc:"
"""The prefix of every key."""

DEFAULT_CONNECTIONS: Final = 50

_NO_URL: Final = (
    "a Redis URL is redis://[user:password@]host[:port]/0, rediss:// with TLS or unix://path; its "
    "parts are percent-encoded. For Sentinel or a cluster, give RedisStore a client of redis-py"
)

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


def client_of(url: str, max_connections: int) -> Redis:
    """A client with connections of its own, which it opens when they are needed.

    A dropped connection is replaced once: every command here may be repeated. Raises
    ConfigurationError (configuration.invalid) for an invalid URL.
    """
    checks = {"ssl_check_hostname": True} if url.startswith("rediss:") else {}
    retry = Retry(NoBackoff(), 1)
    try:
        return Redis.from_url(url, max_connections=max_connections, retry=retry, **checks)
    except (ValueError, TypeError) as error:
        # Its text may contain a part of a password that was not percent-encoded.
        raised = type(error).__name__
        raise ConfigurationError(Code.CONFIGURATION_INVALID, _NO_URL, raised=raised) from None


def _require_usable(client: object) -> None:
    if not isinstance(client, Redis | RedisCluster):
        fault = "RedisStore needs a client of redis.asyncio, or a URL"
    elif client.get_encoder().decode_responses:
        fault = "make the Redis client without decode_responses"
    elif isinstance(client, RedisCluster) and _reads_replicas(client):
        fault = "make a Redis client of the masters: a replica may not have the latest sign-outs"
    else:
        return
    raise misconfigured(fault)


def _reads_replicas(cluster: RedisCluster) -> bool:
    """Whether it reads from replicas, which receive a write some time after the master."""
    balances = getattr(cluster, "load_balancing_strategy", None) is not None
    return balances or cluster.read_from_replicas


class RedisStore(Store):
    """Values on Redis 7 or Valkey: one server, a master behind sentinels, or a cluster.

    `client` is a URL of `redis.from_url` or a client: a `Redis`, the client of
    `Sentinel(...).master_for(...)`, or a `RedisCluster`. With a URL, the store makes a client in
    each event loop; the application closes its own one. The store uses `max_connections`
    connections at the most. Raises ConfigurationError (configuration.invalid) for another URL.

    Each operation is one command of at most `timeout` seconds, with its wait for a connection. It
    raises SessionError (session.store_unavailable) when Redis is unavailable.
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
        _require_usable(self._client())
        self._address = _address_of(client)
        self._reached = PerLoop(lambda: (self._client(), asyncio.Semaphore(max_connections)))

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
        if isinstance(self._given, RedisCluster):
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
        """Whether a single Redis deletes values that have not expired when its memory is full.

        Then it forgets which sessions have ended. Needs the permission `+info`.
        """
        memory = await self._run(lambda client: client.info("memory"), "tell its maxmemory-policy")
        return bool(memory["maxmemory"]) and memory["maxmemory_policy"] != "noeviction"

    async def aclose(self) -> None:
        """Close the connections that the store opened; a client of the application stays open."""
        if isinstance(self._given, str):
            client, _ = self._reached.here()
            await client.aclose()

    async def _run(self, command: Command, doing: str) -> Any:
        """The reply to `command`; texts are bytes."""
        return await ask_store(self._reply(command), self._address, doing)

    async def _reply(self, command: Command) -> Any:
        client, slots = self._reached.here()
        async with TimeLimit(self._timeout), slots:
            try:
                return await command(client)
            except ReadOnlyError:
                # Idle connections may lead to a former master; a cluster's nodes redirect.
                if isinstance(client, Redis):
                    await client.connection_pool.disconnect(inuse_connections=False)
                raise

    def _client(self) -> Client:
        given = self._given
        return client_of(given, self._max_connections) if isinstance(given, str) else given


def _address_of(given: Client | str) -> str:
    """The address in a URL, without user, password and options."""
    if not isinstance(given, str):
        return type(given).__name__
    scheme, _, rest = given.partition("?")[0].partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _values(found: Sequence[bytes | None]) -> Sequence[bytes]:
    """The values without their times."""
    return [b"" if stored is None else stored[_DIGITS:] for stored in found]
