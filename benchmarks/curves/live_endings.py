"""A signed-in request over how many endings of other sessions are remembered."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Final

from redis.asyncio import Redis

from benchmarks.curves.bulk import copied, url_of_database
from benchmarks.curves.growth import Place, grown, lines, measured, tell
from benchmarks.curves.live_sessions import GROWS_AT_MOST, LIVE
from benchmarks.curves.pictures import Lines
from benchmarks.oidc_id_tokens import ISSUER, NOW
from benchmarks.oidc_peers import Visited, bare, starlette_sessions, users_on_redis
from benchmarks.oidc_redis import PROGRAM, a_redis
from benchmarks.oidc_sessions import an_app, bare_endpoint
from benchmarks.oidc_visits import CODEC, Session, Sessions, a_session_of, asking, many, ours
from benchmarks.targets import Target
from fastapi_oidc import RevocationRecord, StandardIdentity
from fastapi_oidc.session.memory import MemoryRevocationStore
from fastapi_oidc.session.redis import RedisRevocationStore, RedisSessionStore

BROWSERS: Final = 100
SIZE: Final = 500
IN_MEMORY, ON_REDIS = "ours, cookie, endings in memory", "ours, cookie, endings on Redis"
BOTH_ON_REDIS = "ours, session and endings on Redis"


def request_over_live_endings(
    amounts: tuple[int, ...] = LIVE, *, rounds: int = 101, calls: int = 10
) -> Lines:
    """Measures the ways to keep endings; no peer knows them."""
    session = a_session_of(SIZE)
    with asyncio.Runner() as runner, ExitStack() as stack:
        url = stack.enter_context(a_redis()) if PROGRAM else ""
        visits = runner.run(_with_all(url, session, amounts))
        cases = {place: asking(runner, visited) for place, visited in visits.items()}
        tell("measuring")
        figures = measured(cases, rounds=rounds, calls=calls)
    few, most = amounts[0], amounts[-1]
    kept = [line for line in (IN_MEMORY, ON_REDIS, BOTH_ON_REDIS) if (line, few) in figures]
    return Lines(
        title="A signed-in request over the endings that are remembered",
        x="endings of other sessions",
        y="µs for a request, in the process",
        x_scale="log",
        lines=lines(figures, amounts),
        note=f"Quickest of {rounds} rounds of {calls}, in turns, by {BROWSERS} browsers; "
        f"sessions of {SIZE} bytes. No peer knows which sessions are over.",
        targets=[
            Target(f"{most:,} / {few:,} endings, {line}", grown(figures, line), GROWS_AT_MOST)
            for line in kept
        ],
    )


async def _with_all(url: str, session: Session, amounts: tuple[int, ...]) -> dict[Place, Visited]:
    browsers, few = many(BROWSERS, session), amounts[0]
    visits: dict[Place, Visited] = {
        ("ours, cookie, no endings", few): await ours(browsers),
        ("SessionMiddleware", few): starlette_sessions(CODEC.encode(session)),
        ("bare endpoint", few): bare(an_app(bare_endpoint)),
    }
    if url:
        users = await users_on_redis(Redis.from_url(url), BROWSERS)
        visits["fastapi-users, Redis", few] = users
    for number, endings in enumerate(amounts):
        tell(f"ending {endings:,} sessions")
        visits[IN_MEMORY, endings] = await _in_memory(browsers, endings)
        if url:
            on_redis = await _on_redis(url_of_database(url, number), browsers, endings)
            visits |= {(line, endings): visited for line, visited in on_redis.items()}
    return visits


async def _in_memory(browsers: Sessions, endings: int) -> Visited:
    store = MemoryRevocationStore(max_records=endings)
    for number in range(endings):
        await store.revoke(_ending(number))
    return await ours(browsers, back_channel_logout_store=store)


async def _on_redis(url: str, browsers: Sessions, endings: int) -> dict[str, Visited]:
    store = RedisRevocationStore.from_url(url)
    await store.revoke(_ending(0))
    await copied(Redis.from_url(url), "*revoked:*", endings - 1)
    return {
        ON_REDIS: await ours(browsers, back_channel_logout_store=store),
        BOTH_ON_REDIS: await ours(
            browsers, session_store=RedisSessionStore.from_url(url, StandardIdentity)
        ),
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
