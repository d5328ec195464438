"""The peers of `fastapi_oidc`: each an application with /me, and a browser that is signed in.

Each keeps as much as ours: the same JSON in the session, where it has one. fastapi-users keeps a
token and looks for the user in a dictionary here, not in a database.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from authlib.deprecate import AuthlibDeprecationWarning
from fastapi import Depends, FastAPI
from fastapi_users import BaseUserManager, FastAPIUsers
from fastapi_users.authentication import AuthenticationBackend, CookieTransport, JWTStrategy
from fastapi_users.authentication.strategy.base import Strategy
from fastapi_users.authentication.strategy.redis import RedisStrategy
from fastapi_users.db.base import BaseUserDatabase
from itsdangerous import TimestampSigner
from redis.asyncio import Redis
from starlette.types import ASGIApp

from tools.benchmarks.oidc_sessions import SECRET, an_app, peer_app, peer_endpoint, requests
from tools.benchmarks.rounds import Batch

with warnings.catch_warnings():
    # auth0-fastapi uses authlib, which would rather have httpx2, and uses httpx without it.
    warnings.simplefilter("ignore", AuthlibDeprecationWarning)
    from auth0_fastapi.auth.auth_client import AuthClient
    from auth0_fastapi.config import Auth0Config

AUTH0_COOKIE_BYTES = 4096 - len("_a0_session") - 10
"""How much of a session auth0-fastapi writes into one cookie, before it begins another."""


class Visited(NamedTuple):
    """An application, and the `Cookie` headers of browsers that are signed in to it."""

    app: ASGIApp
    cookies: tuple[str, ...]


@dataclass
class User:
    """What fastapi-users wants to know of a user."""

    id: str
    email: str = "alice@example.com"
    hashed_password: str = ""
    is_active: bool = True
    is_superuser: bool = False
    is_verified: bool = True


class Users(BaseUserDatabase[User, str]):
    """Everybody is in it."""

    async def get(self, id: str) -> User:
        return User(id)


class Manager(BaseUserManager[User, str]):
    def parse_id(self, value: Any) -> str:
        return value.decode() if isinstance(value, bytes) else str(value)


def peer_cases(payload: bytes) -> dict[str, Batch]:
    """The same request to those peers that ask nobody."""
    loop = asyncio.new_event_loop()
    peers = {
        "auth0-fastapi": auth0(payload),
        "fastapi-users, JWT": loop.run_until_complete(users_with_tokens()),
    }
    return {name: requests(loop, app, cookies[0]) for name, (app, cookies) in peers.items()}


def starlette_sessions(*payloads: bytes) -> Visited:
    """SessionMiddleware, asked for as its documentation has it, by a browser for each payload."""
    signer = TimestampSigner(SECRET)
    values = [signer.sign(base64.b64encode(payload)).decode() for payload in payloads]
    return Visited(peer_app(peer_endpoint), tuple(f"session={value}" for value in values))


def auth0(payload: bytes) -> Visited:
    """auth0-fastapi with its own encrypted cookies."""
    client = AuthClient(
        Auth0Config(
            domain="op.example.com",
            clientId="app",
            clientSecret=SECRET,
            appBaseUrl="https://app.example.com",
            secret=SECRET,
        )
    )

    async def me(session: dict[str, Any] = Depends(client.require_session)) -> dict[str, str]:
        return {"sub": session["user"]["sub"]}

    state = {"user": json.loads(payload), "internal": {"sid": "sid", "created_at": 0}}
    sealed: str = client.client._state_store.encrypt(client.client._state_identifier, state)
    starts = range(0, len(sealed), AUTH0_COOKIE_BYTES)
    chunks = [sealed[start : start + AUTH0_COOKIE_BYTES] for start in starts]
    cookie = "; ".join(f"_a0_session_{number}={chunk}" for number, chunk in enumerate(chunks))
    return Visited(an_app(me), (cookie,))


async def users_with_tokens() -> Visited:
    """fastapi-users with a JWT in the cookie, which needs no server."""
    return await _users(JWTStrategy(secret=SECRET, lifetime_seconds=8 * 3600), 1)


async def users_on_redis(client: Redis, browsers: int = 1, *, prefix: str = "users:") -> Visited:
    """fastapi-users with a token on Redis for each browser."""
    strategy: RedisStrategy[User, str] = RedisStrategy(
        client, lifetime_seconds=8 * 3600, key_prefix=prefix
    )
    return await _users(strategy, browsers)


async def _users(strategy: Strategy[User, str], browsers: int) -> Visited:
    transport = CookieTransport(cookie_name="users")
    backend = AuthenticationBackend(name="only", transport=transport, get_strategy=lambda: strategy)

    async def manager() -> AsyncIterator[Manager]:
        yield Manager(Users())

    current = FastAPIUsers[User, str](manager, [backend]).current_user()

    async def me(user: User = Depends(current)) -> dict[str, str]:
        return {"sub": user.id}

    names = [f"user-{number}-{secrets.token_hex(4)}" for number in range(browsers)]
    tokens = [await strategy.write_token(User(name)) for name in names]
    return Visited(an_app(me), tuple(f"users={token}" for token in tokens))


def bare(app: FastAPI) -> Visited:
    """Nobody is signed in."""
    return Visited(app, ("",))
