"""What a session adds to a request: again with one cookie, and each time with another.

In one process and without a socket, so that only Python code is measured.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Final

from redis.asyncio import Redis

from fastapi_oidc import StandardIdentity
from fastapi_oidc.session.session_cookie import SessionCodec
from fastapi_oidc.session.sql import SQLStore
from tools.benchmarks.applications import (
    BY_DEPENDS,
    BY_REQUEST,
    asking,
    auth0_application,
    bare_application,
    our_application,
    session_of,
    signed_in,
    starlette_application,
    starlette_cookies,
)
from tools.benchmarks.figures import Figure
from tools.benchmarks.postgres_server import postgres_folder, postgres_server
from tools.benchmarks.provider import Lives, RotatingProvider
from tools.benchmarks.redis_server import redis_server
from tools.benchmarks.rounds import Batch, Cost, awaited, cold, costs

ROUNDS, REQUESTS, COLD_ROUNDS = 101, 50, 300
BROWSERS: Final = 1500
"""More than a process remembers of opened cookies: none is remembered when its turn comes again."""
ISSUER: Final = "https://op.example.com"

BARE, BARE_DEPENDS = "bare endpoint", "bare endpoint, a Depends"
OURS, OURS_DEPENDS = "ours, request.state", "ours, Depends(require_auth)"
PEER, PEER_DEPENDS = "SessionMiddleware, request.session", "SessionMiddleware, a Depends"
OURS_FIRST, PEER_FIRST = "ours, each time another cookie", "SessionMiddleware, each time another"
AUTH0, MEMORY = "auth0-fastapi, Depends", "ours, memory store, request.state"
REDIS, REDIS_FIRST = "ours, Redis store, request.state", "ours, Redis store, each time another"
GET = "redis-py, GET of another row each time"
POSTGRESQL, SQLITE = "PostgreSQL", "SQLite"


def figures() -> Iterator[Figure]:
    """Every way to find a session, in a tight loop and with cold caches."""
    with ExitStack() as stack:
        runner, url = stack.enter_context(asyncio.Runner()), stack.enter_context(redis_server())
        stored = redis_cases(runner, url)
        for database, where in databases(stack).items():
            stored |= sql_cases(runner, database, where)
        cases = cookie_cases(runner)
        tight = costs(cases | stored, rounds=ROUNDS, calls=REQUESTS)
        cool = cold(cases, rounds=COLD_ROUNDS)
    yield from shown("tight loop", tight)
    yield from shown("cold caches", cool)
    yield from compared("tight loop", tight)
    yield from compared("cold caches", cool)
    yield from compared_with_get(tight)


def cookie_cases(runner: asyncio.Runner) -> dict[str, Batch]:
    """Sessions in cookies, of ours and of peers, and in our memory store."""
    provider = RotatingProvider(ISSUER, Lives())
    ours, _ = our_application(ISSUER, provider=provider.app)
    in_memory, _ = our_application(ISSUER, provider=provider.app, session_store="memory")
    cookies = runner.run(signed_in(ours, BROWSERS))
    payload = SessionCodec(StandardIdentity).encode(runner.run(session_of(ours, cookies[0])))
    peer, peer_cookies = starlette_application(), starlette_cookies(payload, BROWSERS)
    bare, (auth0, auth0_cookie) = bare_application(), auth0_application(payload)
    return {
        BARE: asking(runner, bare, BY_REQUEST, [""]),
        BARE_DEPENDS: asking(runner, bare, BY_DEPENDS, [""]),
        OURS: asking(runner, ours, BY_REQUEST, cookies[:1]),
        OURS_DEPENDS: asking(runner, ours, BY_DEPENDS, cookies[:1]),
        OURS_FIRST: asking(runner, ours, BY_REQUEST, cookies[1:]),
        MEMORY: asking(runner, in_memory, BY_REQUEST, runner.run(signed_in(in_memory, 1))),
        PEER: asking(runner, peer, BY_REQUEST, peer_cookies[:1]),
        PEER_DEPENDS: asking(runner, peer, BY_DEPENDS, peer_cookies[:1]),
        PEER_FIRST: asking(runner, peer, BY_REQUEST, peer_cookies[1:]),
        AUTH0: asking(runner, auth0, BY_DEPENDS, [auth0_cookie]),
    }


def redis_cases(runner: asyncio.Runner, url: str) -> dict[str, Batch]:
    """Sessions on Redis, and what redis-py alone takes to read such a row."""
    provider = RotatingProvider(ISSUER, Lives())
    app, _ = our_application(ISSUER, provider=provider.app, session_store=url)
    cookies = runner.run(signed_in(app, BROWSERS))
    client = Redis.from_url(url)
    rows = iter(runner.run(rows_of(client)) * (ROUNDS * REQUESTS // BROWSERS + 2))

    async def get() -> None:
        if await client.get(next(rows)) is None:
            raise RuntimeError("the row was not found")

    return {
        REDIS: asking(runner, app, BY_REQUEST, cookies[:1]),
        REDIS_FIRST: asking(runner, app, BY_REQUEST, cookies[1:]),
        GET: awaited(runner, get),
    }


def databases(stack: ExitStack) -> dict[str, str]:
    """The URL of a new database of each kind."""
    programs = postgres_folder()
    if programs is None:
        raise RuntimeError("these figures need the package postgresql")
    url, _ = stack.enter_context(postgres_server(programs))
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return {POSTGRESQL: url, SQLITE: f"sqlite+aiosqlite:///{folder}/sessions.db"}


def sql_cases(runner: asyncio.Runner, database: str, url: str) -> dict[str, Batch]:
    """Sessions in a SQL database, as `redis_cases`."""
    provider = RotatingProvider(ISSUER, Lives())
    store = SQLStore(url)
    runner.run(store.create_tables())
    app, _ = our_application(ISSUER, provider=provider.app, session_store=store)
    cookies = runner.run(signed_in(app, BROWSERS))
    name = f"ours, {database} store"
    return {
        f"{name}, request.state": asking(runner, app, BY_REQUEST, cookies[:1]),
        f"{name}, each time another": asking(runner, app, BY_REQUEST, cookies[1:]),
    }


async def rows_of(client: Redis) -> list[bytes]:
    """The names of all strings, which are the rows of sessions."""
    return [name async for name in client.scan_iter(_type="string")]


def shown(how: str, measured: Mapping[str, Cost]) -> Iterator[Figure]:
    """The time of each case."""
    for name, cost in measured.items():
        yield Figure(f"{how}: {name}", cost.median, "µs")


def compared(how: str, measured: Mapping[str, Cost]) -> Iterator[Figure]:
    """What ours adds to a bare endpoint, as a multiple of what SessionMiddleware adds."""
    opening = measured[OURS_FIRST].above(measured[OURS]).median
    added = measured[OURS_FIRST].above(measured[BARE]).median
    reason = f"Opening the cookie takes {opening:.0f} µs of the {added:.0f} µs that ours adds."
    pairs = (
        ("one cookie, by the request", OURS, PEER, BARE, 1.0, ""),
        ("one cookie, by a Depends", OURS_DEPENDS, PEER_DEPENDS, BARE_DEPENDS, 1.0, ""),
        ("another cookie each time", OURS_FIRST, PEER_FIRST, BARE, 1.1, reason),
    )
    for kind, ours, peer, bare, at_most, why in pairs:
        ratio = measured[ours].ratio(measured[peer], beyond=measured[bare])
        yield Figure(f"{how}: {kind}, ours / SessionMiddleware", ratio, "", at_most, why)


def compared_with_get(measured: Mapping[str, Cost]) -> Iterator[Figure]:
    """What a session on Redis adds to one in memory, as a multiple of a GET by redis-py."""
    added = measured[REDIS_FIRST].above(measured[MEMORY])
    opening = measured[REDIS_FIRST].above(measured[REDIS]).median
    reason = (
        f"Of {added.median:.0f} µs redis-py's GET is {measured[GET].median:.0f} µs, and opening "
        f"a cookie and a row that are not remembered {opening:.0f} µs."
    )
    what = "Redis, another session each time: what it adds to the memory store / GET"
    yield Figure(what, added.ratio(measured[GET]), "", 1.6, reason)
