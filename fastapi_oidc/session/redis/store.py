"""A store on Redis: one key for each value."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from fastapi_oidc.errors import Code
from fastapi_oidc.session.outage import Place, unavailable_as
from fastapi_oidc.session.redis.clients import (
    DEFAULT_CONNECTIONS,
    DEFAULT_PREFIX,
    Client,
    client_of,
    pool_of,
)
from fastapi_oidc.session.redis.connections import Connections
from fastapi_oidc.session.redis.scripts import Script
from fastapi_oidc.session.store import DEFAULT_TIMEOUT, Cell, Store, Stored

# Before each value stands the time of Redis when it was written, in microseconds.
_DIGITS: Final = 16

# A value is compared by its SHA-1, so that it is not sent twice.
_SWAP: Final = Script(f"""
local now = string.format('%010d%06d', unpack(redis.call('TIME')))
local stored = redis.call('GET', KEYS[1]) or now
local value = string.sub(stored, {_DIGITS + 1})
if redis.sha1hex(value) ~= ARGV[1] then return {{value, now - string.sub(stored, 1, {_DIGITS})}} end
if ARGV[2] == '' then redis.call('DEL', KEYS[1])
else redis.call('SET', KEYS[1], now .. ARGV[2], 'EXAT', ARGV[3]) end
""")


class RedisStore(Store):
    """Values on Redis 7 or Valkey: one server, a master behind sentinels, or a cluster.

    `client` is a URL, from which the store makes a client with `max_connections` connections, or a
    client, which stays the application's to close. A URL is as `redis.from_url` takes it, or
    `redis+sentinel://host,host/service/0` or `redis+cluster://host,host`, and the same with
    `rediss` for TLS. Raises ConfigurationError (configuration.invalid) for another.

    Each operation is one command of at most `timeout` seconds, and raises SessionError
    (session.store_unavailable) when Redis is unavailable.
    """

    def __init__(
        self,
        client: Client | str,
        *,
        prefix: str = DEFAULT_PREFIX,
        timeout: float = DEFAULT_TIMEOUT,
        max_connections: int = DEFAULT_CONNECTIONS,
    ) -> None:
        self._place = Place.of(client) if isinstance(client, str) else _place_of(client)
        if isinstance(client, str):
            client = client_of(client, max_connections)
        self._connections, self._prefix = Connections(client, timeout), prefix

    async def read(self, keys: Sequence[str], /) -> Sequence[bytes]:
        """See `Store.read`. The nodes of a cluster are read concurrently."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE, self._place, "read"):
            found = await self._connections.values([self._prefix + key for key in keys])
        return [b"" if stored is None else stored[_DIGITS:] for stored in found]

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        """See `Store.swap`."""
        expected = "" if before is None else _sha1(before)
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE, self._place, "write"):
            found = await self._connections.run_script(
                _SWAP, [self._prefix + key], [expected, after.value, after.expires_at]
            )
        return None if found is None else Stored(found[0], found[1] / 1e6)

    async def aclose(self) -> None:
        """Close the connections that the store opened; a client of the application stays open."""
        await self._connections.aclose()


def _place_of(client: Client) -> Place:
    """Where the application's client leads to."""
    options = pool_of(client).connection_kwargs
    place = options.get("path") or f"{options.get('host', '')}:{options.get('port', '')}"
    return Place(f"redis://{place.strip(':')}", tuple(filter(None, [options.get("password")])))


def _sha1(value: bytes) -> str:
    return hashlib.sha1(value, usedforsecurity=False).hexdigest()
