"""A signed-in request over the size of its session."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack

from redis.asyncio import Redis

from fastapi_oidc import StandardIdentity
from fastapi_oidc.session.opener import LIMIT
from fastapi_oidc.session.redis import RedisSessionStore
from tools.benchmarks.curves.growth import Place, lines, measured, ratio
from tools.benchmarks.curves.pictures import Lines
from tools.benchmarks.oidc_peers import (
    Visited,
    auth0,
    bare,
    starlette_sessions,
    users_on_redis,
    users_with_tokens,
)
from tools.benchmarks.oidc_redis import PROGRAM, a_redis
from tools.benchmarks.oidc_sessions import an_app, bare_endpoint
from tools.benchmarks.oidc_visits import CODEC, Session, a_session_of, asking, many, ours
from tools.benchmarks.targets import Target

SIZES = (500, 1000, 1500, 2000, 2500, 3000, 3500)
BROWSERS = LIMIT + LIMIT // 5
"""More than there are opened cookies in memory: each has left it when its turn comes again."""
PEER, OTHERS = "SessionMiddleware, one browser", "SessionMiddleware, many browsers"
AGAIN, FIRST = "ours, cookie, again within a minute", "ours, cookie, first request"
AUTH0 = "auth0-fastapi"


def request_over_size(
    sizes: tuple[int, ...] = SIZES, *, rounds: int = 101, calls: int = 10
) -> Lines:
    """Measures it with every keeper of ours and every peer."""
    with asyncio.Runner() as runner, ExitStack() as stack:
        url = stack.enter_context(a_redis()) if PROGRAM else ""
        opened = AsyncExitStack()
        stack.callback(lambda: runner.run(opened.aclose()))
        visits = runner.run(_of_every_size(url, sizes, opened))
        cases = {place: asking(runner, visited) for place, visited in visits.items()}
        figures = measured(cases, rounds=rounds, calls=calls)
    return Lines(
        title="A signed-in request over the size of its session",
        x="bytes of JSON in the session",
        y="µs for a request, in the process",
        lines=lines(figures, sizes),
        note=f"Quickest of {rounds} rounds of {calls}, in turns; ours with Depends. One "
        f"browser, but for first requests and many browsers: those are {BROWSERS:,}.",
        targets=[
            Target(
                f"{size} bytes, {own} / {peer}", ratio(figures[own, size], figures[peer, size]), 1
            )
            for size in (sizes[len(sizes) // 2], sizes[-1])
            for own, peer in ((AGAIN, PEER), (FIRST, OTHERS), (AGAIN, AUTH0))
        ],
    )


async def _of_every_size(
    url: str, sizes: tuple[int, ...], opened: AsyncExitStack
) -> dict[Place, Visited]:
    visits: dict[Place, Visited] = {}
    for size in sizes:
        drawn = await _of(url, a_session_of(size), opened)
        visits |= {(line, size): each for line, each in drawn.items()}
    visits["fastapi-users, JWT", sizes[0]] = await users_with_tokens()
    if url:
        client = Redis.from_url(url)
        opened.push_async_callback(client.aclose)
        visits["fastapi-users, Redis", sizes[0]] = await users_on_redis(client)
    visits["bare endpoint", sizes[0]] = bare(an_app(bare_endpoint))
    return visits


async def _of(url: str, session: Session, opened: AsyncExitStack) -> dict[str, Visited]:
    sessions, payload, others = many(1, session), CODEC.encode(session), many(BROWSERS, session)
    visits = {
        AGAIN: await ours(sessions),
        FIRST: await ours(others),
        "ours, memory": await ours(sessions, session_store="memory"),
        PEER: starlette_sessions(payload),
        OTHERS: starlette_sessions(*(CODEC.encode(kept.session) for kept in others)),
        AUTH0: auth0(payload),
    }
    if url:
        store = RedisSessionStore.from_url(url, StandardIdentity)
        opened.push_async_callback(store.aclose)
        visits["ours, Redis"] = await ours(sessions, session_store=store)
    return visits
