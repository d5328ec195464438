"""The page of the fleet: which workers respond, whether Redis does, and the session."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel
from redis.asyncio import Redis
from redis.exceptions import RedisError
from starlette.staticfiles import StaticFiles

from examples.console.account import Signed, User
from fastapi_oidc import OIDCSession

PREFIX: Final = "/fleet"
SESSION_PATH: Final = "/whoami"
TOKENS_PATH: Final = "/whoami/tokens"
TOKENS: Final = 5
"""Number of tasks that request an access token at the same time."""
_STATIC: Final = Path(__file__).with_name("static")
FILES: Final = StaticFiles(directory=_STATIC)
_PATIENCE: Final = 1.0
"""How many seconds the page waits for Redis."""


class Health(BaseModel):
    """The state of one worker; `redis_milliseconds` is None if Redis does not respond."""

    worker: str
    pid: int
    redis_milliseconds: float | None


class SessionSeen(BaseModel):
    """The session as the responding worker knows it; times in seconds since the epoch."""

    worker: str
    id: str
    sid: str | None
    sub: str
    name: str
    generation: int
    expires_at: int
    access_token_expires_at: int | None

    @classmethod
    def by(cls, worker: str, session: OIDCSession[User]) -> SessionSeen:
        """The session as `worker` knows it, without its tokens."""
        return cls(
            worker=worker,
            id=session.id,
            sid=session.sid,
            sub=session.sub,
            name=session.identity.name,
            generation=session.generation,
            expires_at=session.expires_at,
            access_token_expires_at=session.tokens.expires_at,
        )


def routes(worker: str, redis_url: str) -> APIRouter:
    """The page needs no session, so that it works while no session can be read."""
    router = APIRouter()

    @router.get(PREFIX)
    async def page() -> Response:
        return FileResponse(_STATIC / "page.html", headers={"Cache-Control": "no-cache"})

    @router.get(f"{PREFIX}/health")
    async def health(response: Response) -> Health:
        response.headers["Cache-Control"] = "no-store"
        milliseconds = await _milliseconds_of(redis_url)
        return Health(worker=worker, pid=os.getpid(), redis_milliseconds=milliseconds)

    @router.get(SESSION_PATH)
    async def session_seen(session: Signed) -> SessionSeen:
        return SessionSeen.by(worker, session)

    @router.get(TOKENS_PATH)
    async def token_ends(session: Signed, request: Request) -> list[int | None]:
        """The expiry of the tokens that several tasks get, like tasks without a request."""
        grant = await request.app.state.oidc.grant(session.id)
        tokens = await asyncio.gather(*(grant.access_token() for _ in range(TOKENS)))
        return [token.expires_at for token in tokens]

    return router


async def _milliseconds_of(redis_url: str) -> float | None:
    """The response time of Redis, a new connection included."""
    began = time.perf_counter()
    try:
        async with Redis.from_url(redis_url, socket_timeout=_PATIENCE) as client:
            await client.ping()
    except (RedisError, OSError, TimeoutError):
        return None
    return round(1000 * (time.perf_counter() - began), 2)
