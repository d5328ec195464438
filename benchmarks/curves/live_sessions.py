"""A signed-in request over how many sessions are live beside it."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import ExitStack
from typing import Final

from redis.asyncio import Redis

from benchmarks.curves.bulk import copied, url_of_database
from benchmarks.curves.growth import Place, grown, lines, measured, tell
from benchmarks.curves.pictures import Lines
from benchmarks.oidc_peers import Visited, bare, starlette_sessions, users_on_redis
from benchmarks.oidc_redis import PROGRAM, a_redis
from benchmarks.oidc_sessions import an_app, bare_endpoint
from benchmarks.oidc_visits import CODEC, Session, Sessions, a_session_of, asking, many, ours
from benchmarks.targets import Target
from fastapi_oidc import StandardIdentity
from fastapi_oidc.session.memory import MemorySessionStore
from fastapi_oidc.session.redis import RedisSessionStore

LIVE: Final = (100, 1000, 10_000, 100_000, 1_000_000)
BROWSERS: Final = 100
"""So many of the live sessions are asked for, each in its turn."""
SIZE: Final = 500
GROWS_AT_MOST: Final = 1.5


def request_over_live_sessions(
    amounts: tuple[int, ...] = LIVE, *, rounds: int = 101, calls: int = 10
) -> Lines:
    """Measures the stores of ours and of fastapi-users."""
    session = a_session_of(SIZE)
    with asyncio.Runner() as runner, ExitStack() as stack:
        url = stack.enter_context(a_redis()) if PROGRAM else ""
        visits = runner.run(_with_all(url, session, amounts))
        cases = {place: asking(runner, visited) for place, visited in visits.items()}
        tell("measuring")
        figures = measured(cases, rounds=rounds, calls=calls)
    stores = [line for line in ("ours, memory", "ours, Redis") if (line, amounts[0]) in figures]
    few, most = amounts[0], amounts[-1]
    return Lines(
        title="A signed-in request over the live sessions in its store",
        x="live sessions",
        y="µs for a request, in the process",
        x_scale="log",
        lines=lines(figures, amounts),
        note=f"Quickest of {rounds} rounds of {calls}, in turns, by {BROWSERS} browsers; "
        f"sessions of {SIZE} bytes. Cookies and the bare endpoint keep nothing.",
        targets=[
            Target(f"{most:,} / {few:,} live sessions, {line}", grown(figures, line), GROWS_AT_MOST)
            for line in stores
        ],
    )


async def _with_all(url: str, session: Session, amounts: tuple[int, ...]) -> dict[Place, Visited]:
    browsers, few = many(BROWSERS, session), amounts[0]
    visits: dict[Place, Visited] = {
        ("ours, cookie", few): await ours(browsers),
        ("SessionMiddleware", few): starlette_sessions(CODEC.encode(session)),
        ("bare endpoint", few): bare(an_app(bare_endpoint)),
    }
    for number, live in enumerate(amounts):
        tell(f"signing in {live:,} people in memory")
        visits["ours, memory", live] = await _in_memory(browsers, session, live)
        if url:
            tell(f"the same on Redis, and {live:,} tokens of fastapi-users")
            on_redis = await _on_redis(url_of_database(url, number), browsers, live)
            visits |= {(line, live): visited for line, visited in on_redis.items()}
    return visits


async def _in_memory(browsers: Sessions, session: Session, live: int) -> Visited:
    store = MemorySessionStore(max_sessions=live + 1, identity_type=StandardIdentity)
    visited = await ours(browsers, session_store=store)
    for number in range(live - BROWSERS):
        id = secrets.token_urlsafe(32)
        await store.set(id, session.model_copy(update={"id": id, "sub": f"other-{number}"}))
    return visited


async def _on_redis(url: str, browsers: Sessions, live: int) -> dict[str, Visited]:
    store = RedisSessionStore.from_url(url, StandardIdentity)
    visited = await ours(browsers, session_store=store)
    client = Redis.from_url(url)
    users = await users_on_redis(client, BROWSERS)
    for pattern in ("*session:*", "users:*"):
        await copied(client, pattern, live - BROWSERS)
    return {"ours, Redis": visited, "fastapi-users, Redis": users}
