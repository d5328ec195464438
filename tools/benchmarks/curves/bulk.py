"""A great many rows on Redis within seconds: copies of one that the application wrote."""

from __future__ import annotations

from typing import Final

from redis.asyncio import Redis

AT_ONCE: Final = 20_000
"""Rows that one script makes, so that Redis answers others in between."""

_COPY: Final = """
local value, ends = redis.call('GET', KEYS[1]), redis.call('EXPIRETIME', KEYS[1])
for number = ARGV[2], ARGV[3] do
  redis.call('SET', ARGV[1] .. redis.sha1hex(number), value, 'EXAT', ends)
end
"""


async def copied(client: Redis, pattern: str, count: int) -> None:
    """Adds so many copies of a row whose key is like `pattern`, under keys of its kind."""
    row = await a_key(client, pattern)
    kind = row[: row.rindex(b":") + 1]
    copy = client.register_script(_COPY)
    for first in range(0, count, AT_ONCE):
        await copy([row], [kind, first, min(first + AT_ONCE, count) - 1])


async def a_key(client: Redis, pattern: str) -> bytes:
    """One of the keys like `pattern`."""
    key = (await client.keys(pattern))[0]
    return key if isinstance(key, bytes) else key.encode()


def url_of_database(url: str, number: int) -> str:
    """The same server's database of this number."""
    return f"{url}?db={number}"
