"""A process that serves every application of `benchmarks.oidc_served`, each on its own port."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

import uvicorn
from redis.asyncio import Redis
from starlette.types import ASGIApp

from fastapi_oidc import StandardIdentity
from fastapi_oidc.session.redis import RedisRevocationStore, RedisSessionStore
from tools.benchmarks.oidc_peers import Visited, auth0, bare, starlette_sessions, users_on_redis
from tools.benchmarks.oidc_sessions import an_app, bare_endpoint
from tools.benchmarks.oidc_visits import CODEC, Sessions, ours

BARE: Final = "bare endpoint"
PEER: Final = "SessionMiddleware"
AUTH0: Final = "auth0-fastapi"
COOKIE: Final = "ours, cookie"
FIRST: Final = "ours, cookie, first requests"
MEMORY: Final = "ours, memory"
REDIS: Final = "ours, Redis"
COOKIE_REVOCATION: Final = "ours, cookie with revocation on Redis"
REVOCATION: Final = "ours, Redis with revocation"
USERS: Final = "fastapi-users, Redis"
ON_REDIS: Final = (REDIS, REVOCATION, COOKIE_REVOCATION, USERS)


@dataclass(frozen=True)
class Plan:
    """What the workers have in common; without a Redis URL nothing is kept there.

    There is a session for each connection, and many more for requests that are the first of theirs.
    """

    redis: str
    sessions: Sessions
    connections: int
    listeners: Mapping[str, socket.socket]

    @property
    def few(self) -> Sessions:
        """One session for each connection."""
        return self.sessions[: self.connections]


def work(connection: Connection, plan: Plan) -> None:
    """Sends the cookies of its browsers and serves until it is killed."""
    asyncio.run(_serve(connection, plan))


async def _serve(connection: Connection, plan: Plan) -> None:
    visits = await _visits(plan)
    # Or a request would wait while Python looks at what ten applications hold, for 50 ms and more.
    gc.collect()
    gc.freeze()
    # The listeners are open already: who connects before a server has begun is served when it has.
    connection.send({name: visited.cookies for name, visited in visits.items()})
    await asyncio.gather(
        *(_server(visits[name].app).serve([listener]) for name, listener in plan.listeners.items())
    )


def _server(app: ASGIApp) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", ws="none")
    )


async def _visits(plan: Plan) -> dict[str, Visited]:
    """Every application, with as many browsers as the plan has sessions, or with one."""
    payload = CODEC.encode(plan.sessions[0].session)
    visits = {
        BARE: bare(an_app(bare_endpoint)),
        PEER: starlette_sessions(payload),
        AUTH0: auth0(payload),
        COOKIE: await ours(plan.few),
        FIRST: await ours(plan.sessions),
        MEMORY: await ours(plan.few, session_store="memory"),
    }
    return visits | (await _visits_on_redis(plan) if plan.redis else {})


async def _visits_on_redis(plan: Plan) -> dict[str, Visited]:
    url, sessions = plan.redis, plan.few
    endings = RedisRevocationStore.from_url(url)
    return {
        REDIS: await ours(
            sessions, session_store=RedisSessionStore.from_url(url, StandardIdentity)
        ),
        REVOCATION: await ours(
            sessions,
            session_store=RedisSessionStore.from_url(url, StandardIdentity),
            back_channel_logout_store=RedisRevocationStore.from_url(url),
        ),
        COOKIE_REVOCATION: await ours(sessions, back_channel_logout_store=endings),
        USERS: await users_on_redis(Redis.from_url(url), len(sessions)),
    }
