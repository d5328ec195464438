"""What a session takes of the memory, over its size."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Final

from redis.asyncio import Redis

from fastapi_oidc import StandardIdentity
from fastapi_oidc.session.memory import MemorySessionStore
from fastapi_oidc.session.redis import RedisSessionStore
from tools.benchmarks.curves.growth import tell
from tools.benchmarks.curves.pictures import Lines, Point
from tools.benchmarks.curves.sizes import SIZES
from tools.benchmarks.oidc_peers import users_on_redis
from tools.benchmarks.oidc_redis import PROGRAM, a_redis
from tools.benchmarks.oidc_stores import resident_bytes
from tools.benchmarks.oidc_visits import CODEC, Sessions, a_session_of, many, ours
from tools.benchmarks.targets import Target

SESSIONS: Final = 5000
MEMORY, DICTIONARY = "ours, memory", "a dictionary of the JSON"
REDIS, PLAIN, USERS = "ours, Redis", "the JSON on Redis", "fastapi-users, Redis (a token alone)"


def memory_of_a_session(sizes: tuple[int, ...] = SIZES, *, count: int = SESSIONS) -> Lines:
    """Measures the memory of this process, and what Redis says that it uses."""
    with ExitStack() as stack:
        url = stack.enter_context(a_redis()) if PROGRAM else ""
        drawn = asyncio.run(_of_each_size(url, sizes, count))
    size, most = drawn[MEMORY][-1]
    over = (most - drawn[DICTIONARY][-1][1]) * 1024
    return Lines(
        title="Memory of a session over its size",
        x="bytes of JSON in the session",
        y="kB for a session",
        lines=drawn,
        note=f"{count:,} sessions of as many users: what the process, or Redis, has more than "
        "before.",
        targets=[Target(f"beside {size:g} bytes of JSON, memory store", over, 2048, "bytes")],
    )


async def _of_each_size(url: str, sizes: tuple[int, ...], count: int) -> dict[str, list[Point]]:
    drawn: dict[str, list[Point]] = {}
    alive: list[object] = []
    for size in sizes:
        tell(f"keeping sessions of {size} bytes")
        sessions = many(count, a_session_of(size))
        alive.append(sessions)  # what they leave behind would be taken for nothing
        for line, keep in {MEMORY: _in_memory, DICTIONARY: _in_a_dictionary}.items():
            before = resident_bytes()
            alive.append(await keep(sessions))
            drawn.setdefault(line, []).append((size, (resident_bytes() - before) / count / 1024))
        if url:
            for line, kilobytes in (await _on_redis(url, sessions)).items():
                drawn.setdefault(line, []).append((size, kilobytes))
    return drawn


async def _in_memory(sessions: Sessions) -> object:
    store = MemorySessionStore(max_sessions=len(sessions), identity_type=StandardIdentity)
    for session, reference in sessions:
        assert reference is not None
        await store.set(reference.store_id, session)
    return store


async def _in_a_dictionary(sessions: Sessions) -> object:
    return {f"{session.id}": CODEC.encode(session) for session, _ in sessions}


async def _on_redis(url: str, sessions: Sessions) -> dict[str, float]:
    """Kilobytes of a session; each way has an empty server."""
    client = Redis.from_url(url)

    async def sealed() -> None:
        store = RedisSessionStore.from_url(url, StandardIdentity)
        await ours(sessions, session_store=store)
        await store.aclose()

    async def plain() -> None:
        for session, reference in sessions:
            assert reference is not None
            await client.set(reference.store_id, CODEC.encode(session), exat=session.expires_at)

    async def users() -> None:
        await users_on_redis(client, len(sessions))

    taken = {}
    for line, keep in {REDIS: sealed, PLAIN: plain, USERS: users}.items():
        await client.flushall()
        before = await _used(client)
        await keep()
        taken[line] = (await _used(client) - before) / len(sessions) / 1024
    await client.aclose()
    return taken


async def _used(client: Redis) -> int:
    return int((await client.info("memory"))["used_memory"])
