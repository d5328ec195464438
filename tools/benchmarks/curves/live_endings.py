"""A signed-in request over how many endings of other sessions are remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from redis.asyncio import Redis

from fastapi_oidc import RevocationRecord, StandardIdentity
from fastapi_oidc.session.memory import MemoryRevocationStore
from fastapi_oidc.session.redis import RedisRevocationStore, RedisSessionStore
from tools.benchmarks.curves.beside_others import (
    AMOUNTS,
    BROWSERS,
    Rows,
    Visits,
    request_beside_others,
)
from tools.benchmarks.curves.bulk import copied
from tools.benchmarks.curves.pictures import Lines
from tools.benchmarks.oidc_id_tokens import ISSUER, NOW
from tools.benchmarks.oidc_peers import users_on_redis
from tools.benchmarks.oidc_visits import Sessions, ours

IN_MEMORY: Final = "ours, cookie, endings in memory"
ON_REDIS: Final = "ours, cookie, endings on Redis"
BOTH_ON_REDIS: Final = "ours, session and endings on Redis"


def request_over_live_endings(
    amounts: Sequence[int] = AMOUNTS, *, rounds: int = 101, calls: int = 10
) -> Lines:
    """Measures the ways to keep endings; no peer knows them."""
    rows = Rows(
        title="A signed-in request over the endings that are remembered",
        of="endings of other sessions",
        note="No peer knows which sessions are over.",
        without="ours, cookie, no endings",
        judged=(IN_MEMORY, ON_REDIS, BOTH_ON_REDIS),
        in_memory=_in_memory,
        on_redis=_on_redis,
    )
    return request_beside_others(rows, amounts, rounds=rounds, calls=calls)


async def _in_memory(browsers: Sessions, endings: int) -> Visits:
    store = MemoryRevocationStore(max_records=endings)
    for number in range(endings):
        await store.revoke(_ending(number))
    return {IN_MEMORY: await ours(browsers, back_channel_logout_store=store)}


async def _on_redis(url: str, browsers: Sessions, endings: int) -> Visits:
    store = RedisRevocationStore.from_url(url)
    await store.revoke(_ending(0))
    await copied(Redis.from_url(url), "*revoked:*", endings - 1)
    sessions = RedisSessionStore.from_url(url, StandardIdentity)
    return {
        ON_REDIS: await ours(browsers, back_channel_logout_store=store),
        BOTH_ON_REDIS: await ours(browsers, session_store=sessions),
        "fastapi-users, Redis": await users_on_redis(Redis.from_url(url), BROWSERS),
    }


def _ending(number: int) -> RevocationRecord:
    """Of somebody else's session, as the provider tells it."""
    return RevocationRecord(
        issuer=ISSUER,
        client_id="app",
        sid=f"another-session-{number}",
        issued_at=NOW,
        expires_at=NOW + 8 * 3600,
    )
