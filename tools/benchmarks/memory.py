"""The memory of a live session: in a store, and in a process that has refreshed it."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from redis import Redis
from starlette.types import ASGIApp

from fastapi_oidc import Clock, MemoryStore, StandardIdentity, Store
from fastapi_oidc.session.cells import Cells
from fastapi_oidc.session.cookies import KeyRing
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.rows import Row, row_key
from fastapi_oidc.session.session_cookie import SessionCodec
from tools.benchmarks.applications import (
    BY_DEPENDS,
    Session,
    ask,
    our_application,
    session_of,
    signed_in,
)
from tools.benchmarks.figures import Figure
from tools.benchmarks.provider import Lives, RotatingProvider
from tools.benchmarks.redis_server import redis_server

SESSIONS: Final = 3000
ISSUER: Final = "https://op.example.com"
REMEMBERED: Final = 1200
"""Refreshed first and not counted: a process remembers the last thousand cookies that it opened."""
DUE: Final = Lives(first=1)
DUE_AFTER: Final = 2.0


def figures() -> Iterator[Figure]:
    """kB for each session: what the process, or Redis, has more than before."""
    app, _ = our_application(ISSUER, provider=RotatingProvider(ISSUER, DUE).app)
    with asyncio.Runner() as runner, redis_server() as url, Redis.from_url(url) as redis:
        cookies = runner.run(signed_in(app, SESSIONS))
        session = runner.run(session_of(app, cookies[0]))
        sessions = [of_user(session, number) for number in range(SESSIONS)]
        size = len(SessionCodec(StandardIdentity).encode(session)) / 1024
        after_refresh = runner.run(refreshed(app, cookies))
        memory = MemoryStore()
        before = resident_kilobytes()
        runner.run(fill(memory, sessions))
        in_memory = (resident_kilobytes() - before) / SESSIONS
        on_server = RedisStore(url)
        before = used_memory(redis)
        runner.run(fill(on_server, sessions))
        runner.run(on_server.aclose())
        on_redis = (used_memory(redis) - before) / SESSIONS
    yield Figure("the JSON of the session", size, "kB")
    yield Figure("memory store, beside the JSON", in_memory - size, "kB", 2)
    yield Figure("Redis store, beside the JSON", on_redis - size, "kB", 2)
    yield Figure("cookie, in the process that refreshed the session last", after_refresh, "kB")


def of_user(session: Session, number: int) -> Session:
    """The session of another user, with a claims dictionary of its own."""
    update = {
        "id": f"session-{number:06}",
        "sub": f"user-{number:06}",
        "claims": {**session.claims},
    }
    return session.model_copy(update=update)


async def fill(store: Store, sessions: Sequence[Session]) -> None:
    """Stores the row of every session."""
    codec = SessionCodec(StandardIdentity)
    cells = Cells(store, KeyRing([secrets.token_urlsafe()]).sealer("row"), Clock())
    for session in sessions:
        row = Row(content=codec.encode(session), expires_at=session.last_end)
        await cells.move(row_key(session.id), lambda *_, row=row: row)


async def refreshed(app: ASGIApp, cookies: Sequence[str]) -> float:
    """kB of this process for each session that it refreshes."""
    await asyncio.sleep(DUE_AFTER)
    for cookie in cookies[:REMEMBERED]:
        await ask(app, BY_DEPENDS, cookie)
    before = resident_kilobytes()
    for cookie in cookies[REMEMBERED:]:
        await ask(app, BY_DEPENDS, cookie)
    return (resident_kilobytes() - before) / (len(cookies) - REMEMBERED)


def used_memory(redis: Redis) -> float:
    """What Redis uses, kB."""
    return float(redis.info("memory")["used_memory"]) / 1024


def resident_kilobytes() -> float:
    """What this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024
