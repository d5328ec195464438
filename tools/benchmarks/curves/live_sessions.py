"""A signed-in request over how many sessions are live beside it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from redis.asyncio import Redis

from fastapi_oidc import StandardIdentity
from fastapi_oidc.session.memory import MemorySessionStore
from fastapi_oidc.session.redis import RedisSessionStore
from tools.benchmarks.curves.beside_others import (
    AMOUNTS,
    BROWSERS,
    Rows,
    Visits,
    request_beside_others,
)
from tools.benchmarks.curves.bulk import copied
from tools.benchmarks.curves.pictures import Lines
from tools.benchmarks.oidc_peers import users_on_redis
from tools.benchmarks.oidc_visits import Sessions, ours

MEMORY: Final = "ours, memory"
REDIS: Final = "ours, Redis"


def request_over_live_sessions(
    amounts: Sequence[int] = AMOUNTS, *, rounds: int = 101, calls: int = 10
) -> Lines:
    """Measures the stores of ours and of fastapi-users."""
    rows = Rows(
        title="A signed-in request over the live sessions in its store",
        of="live sessions",
        note="Cookies and the bare endpoint keep nothing.",
        without="ours, cookie",
        judged=(MEMORY, REDIS),
        in_memory=_in_memory,
        on_redis=_on_redis,
    )
    return request_beside_others(rows, amounts, rounds=rounds, calls=calls)


async def _in_memory(browsers: Sessions, live: int) -> Visits:
    store = MemorySessionStore(max_sessions=live + 1, identity_type=StandardIdentity)
    visited = await ours(browsers, session_store=store)
    session = browsers[0].session
    for number in range(live - len(browsers)):
        id = secrets.token_urlsafe(32)
        await store.set(id, session.model_copy(update={"id": id, "sub": f"other-{number}"}))
    return {MEMORY: visited}


async def _on_redis(url: str, browsers: Sessions, live: int) -> Visits:
    store = RedisSessionStore.from_url(url, StandardIdentity)
    visited = await ours(browsers, session_store=store)
    client = Redis.from_url(url)
    users = await users_on_redis(client, BROWSERS)
    for pattern in ("*session:*", "users:*"):
        await copied(client, pattern, live - BROWSERS)
    return {REDIS: visited, "fastapi-users, Redis": users}
