"""One of several processes that serve the same application behind one name.

Reads its configuration as JSON from standard input, and says on standard output where it listens.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI
from redis.asyncio import Redis

from fastapi_oidc import (
    OIDC,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
    require_auth,
)
from fastapi_oidc.session.redis import RedisRefreshLock, RedisSessionStore


def application(settings: dict[str, Any], redis_url: str, prefix: str, mode: str) -> FastAPI:
    client = Redis.from_url(redis_url)
    store = RedisSessionStore(client, StandardIdentity, prefix=prefix) if mode == "store" else None
    oidc = OIDC(
        OIDCSettings(**settings),
        session_store=store,
        refresh_lock=RedisRefreshLock(client, prefix=prefix),
    )
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")

    @app.get("/me")
    async def me(session: Annotated[OIDCSession[Any], Depends(require_auth)]) -> object:
        return {"sub": session.sub, "generation": session.generation}

    return app


def main() -> None:
    configuration = json.load(sys.stdin)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    server = uvicorn.Server(uvicorn.Config(application(**configuration), log_level="warning"))
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
