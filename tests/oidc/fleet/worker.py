"""One of several processes that serve the same application behind one name.

Says where it listens, and "held" when it holds a refresh that the provider has answered and that
is not saved.
"""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI

from fastapi_oidc import (
    OIDC,
    Clock,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    PersistContext,
    StandardIdentity,
    require_auth,
)
from fastapi_oidc.session.redis import RedisStore
from tests.oidc.redis_topologies.clients import Connect

Session = OIDCSession[StandardIdentity]


def application(
    settings: dict[str, Any],
    redis_at: str | Connect,
    mode: str,
    clock_file: str,
    holds: bool,
    say: Connection,
) -> FastAPI:
    store = redis_at if isinstance(redis_at, str) else RedisStore(redis_at())
    oidc = OIDC(
        OIDCSettings(**settings),
        identity_type=StandardIdentity,
        session_store=store if mode == "store" else None,
        back_channel_logout_store=store if mode != "store" else None,
        before_session_persist=partial(held_refresh, say) if holds else None,
        clock=Clock(read=reading(Path(clock_file))),
    )
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")

    @app.get("/me")
    async def me(session: Annotated[Session, Depends(require_auth)]) -> object:
        return {"sub": session.sub, "generation": session.generation}

    return app


async def held_refresh(say: Connection, context: PersistContext[StandardIdentity]) -> Session:
    if context.reason == "refresh":
        say.send("held")
        await asyncio.Event().wait()
    return context.session


def reading(clock_file: Path) -> Callable[[], float]:
    """The time of the fleet."""
    return lambda: time.time() + float(clock_file.read_text())


def serve(configuration: dict[str, Any], log: str, say: Connection) -> None:
    """Serve the application until a signal ends the process; what it logs is in the file `log`."""
    with Path(log).open("wb") as opened:
        os.dup2(opened.fileno(), sys.stderr.fileno())
    # Whoever connects before the application is ready waits in the backlog.
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)
    say.send(listener.getsockname()[1])
    app = application(**configuration, say=say)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
