"""One of several processes that want the same refreshes: `python -m ... URL PREFIX TTL NAME...`.

Prints the results as one JSON line. The refresh named "hold" prints "holding" and never ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable

from redis.asyncio import Redis

from fastapi_oidc.session.redis import RedisRefreshLock


async def main(url: str, prefix: str, ttl: str, *names: str) -> None:
    client = Redis.from_url(url)
    lock = RedisRefreshLock(client, prefix=prefix, ttl=float(ttl))
    callers = [lock.run_exclusive(name, refresh_of(name, client, prefix)) for name in names]
    results = await asyncio.gather(*callers)
    print(json.dumps([result.decode() for result in results]))
    await client.aclose()


def refresh_of(name: str, client: Redis, prefix: str) -> Callable[[], Awaitable[bytes]]:
    async def refresh() -> bytes:
        if name == "hold":
            print("holding", flush=True)
            await asyncio.sleep(3600)
        runs = await client.incr(f"{prefix}runs:{name}")
        await asyncio.sleep(0.05)
        return f"{name} refreshed {runs}".encode()

    return refresh


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
