"""A provider that signs everybody in, rotates refresh tokens and counts what it is asked.

It has no login page: the authorization code is the nonce of the request that asked for it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import multiprocessing
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from typing import Final
from urllib.parse import parse_qs

import uvicorn
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

CLIENT_ID: Final = "app"
AN_HOUR: Final = 3600
TOKEN_LENGTH: Final = 43
PROFILE: Final = {
    "sid": "0d3f5ab0-6a0c-4f6e-9f7b-3a3c2c1f5c11",
    "name": "Alice Example",
    "given_name": "Alice",
    "family_name": "Example",
    "preferred_username": "alice",
    "email": "alice@example.com",
    "email_verified": True,
    "picture": "https://app.example.com/pictures/alice.png",
    "locale": "en",
    "roles": ["reader", "writer", "admin"],
}
"""Claims of every user, beside `sub`: with an opaque access and refresh token a session of 2 kB."""


@dataclass(frozen=True, slots=True)
class Lives:
    """Seconds that access tokens live: the first of a login, and those of refreshes."""

    first: int = AN_HOUR
    later: int = AN_HOUR


class RotatingProvider:
    """Every refresh token is good once (RFC 9700 4.14.2); a token call takes `delay` seconds."""

    def __init__(self, issuer: str, lives: Lives, delay: float = 0) -> None:
        self.issuer, self._lives, self._delay = issuer, lives, delay
        self._key = generate_private_key(public_exponent=65537, key_size=2048)
        self._users = count()
        self._presented: Counter[str] = Counter()
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._metadata),
                Route("/keys", self._keys),
                Route("/token", self._token, methods=["POST"]),
                Route("/presented", self._counts),
            ]
        )

    async def _metadata(self, _: Request) -> Response:
        paths = {
            "authorization_endpoint": "/authorize",
            "token_endpoint": "/token",
            "jwks_uri": "/keys",
        }
        endpoints = {name: self.issuer + path for name, path in paths.items()}
        return JSONResponse({"issuer": self.issuer, **endpoints})

    async def _keys(self, _: Request) -> Response:
        numbers = self._key.public_key().public_numbers()
        n, e = numbers.n.to_bytes(256, "big"), numbers.e.to_bytes(3, "big")
        return JSONResponse(
            {"keys": [{"kty": "RSA", "kid": "key-1", "n": _base64url(n), "e": _base64url(e)}]}
        )

    async def _token(self, request: Request) -> Response:
        form = parse_qs((await request.body()).decode())
        if "code" in form:
            sub = f"user-{next(self._users):06}"
            return _tokens(sub, 0, self._lives.first, id_token=self._id_token(sub, form["code"][0]))
        presented = form["refresh_token"][0]
        self._presented[presented] += 1
        await asyncio.sleep(self._delay)
        if self._presented[presented] > 1:
            return JSONResponse({"error": "invalid_grant"}, 400)
        sub, _, generation = presented.rpartition(".")
        return _tokens(sub, int(generation) + 1, self._lives.later)

    async def _counts(self, _: Request) -> Response:
        """How many token calls presented refresh tokens, and how many tokens those were."""
        return JSONResponse([self._presented.total(), len(self._presented)])

    def _id_token(self, sub: str, nonce: str) -> str:
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "sub": sub, "nonce": nonce}
        times = {"iat": now, "exp": now + AN_HOUR, "auth_time": now}
        header = {"alg": "RS256", "typ": "JWT", "kid": "key-1"}
        parts = (header, claims | times | PROFILE)
        signed = ".".join(_base64url(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_base64url(self._key.sign(signed.encode(), PKCS1v15(), SHA256()))}"


@contextmanager
def served_provider(lives: Lives, delay: float) -> Iterator[str]:
    """The issuer of a provider in a process of its own, for as long as the block runs."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve, args=(there, lives, delay))
    process.start()
    there.close()
    try:
        yield here.recv()
    finally:
        process.kill()
        process.join()
        here.close()


def _serve(connection: Connection, lives: Lives, delay: float) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        # What is accepted inherits it; without it the body of each response waits for an
        # acknowledgement of its head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        issuer = f"http://127.0.0.1:{listener.getsockname()[1]}"
        provider = RotatingProvider(issuer, lives, delay)
        config = uvicorn.Config(provider.app, log_level="warning", lifespan="off", ws="none")
        connection.send(issuer)
        uvicorn.Server(config).run([listener])


def _tokens(sub: str, generation: int, lifetime: int, **more: str) -> Response:
    """Opaque tokens as long as usual, which say whose they are and after how many refreshes."""
    token = f"{sub}.{generation}".rjust(TOKEN_LENGTH, "t")
    members = {"access_token": token, "refresh_token": token, "token_type": "Bearer"}
    return JSONResponse({**members, "expires_in": lifetime, **more})


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
