"""A provider in a process of its own that rotates refresh tokens and counts what it is asked."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from urllib.parse import parse_qs

import uvicorn
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tools.benchmarks.oidc_id_tokens import jwk_of


@contextmanager
def a_provider(delay: float) -> Iterator[str]:
    """Its issuer, for as long as the block runs; a token call is answered after `delay` seconds."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there, delay))
    process.start()
    try:
        yield here.recv()
    finally:
        process.kill()
        process.join()


def _serve(connection: Connection, delay: float) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    issuer = f"http://127.0.0.1:{listener.getsockname()[1]}"
    provider = RotatingProvider(issuer, delay)
    config = uvicorn.Config(provider.app, log_level="warning", lifespan="off", ws="none")
    connection.send(issuer)
    uvicorn.Server(config).run([listener])


class RotatingProvider:
    """Every refresh token is good once, as RFC 9700 4.14 has it for public clients."""

    def __init__(self, issuer: str, delay: float) -> None:
        self._issuer, self._delay = issuer, delay
        self._key = jwk_of(generate_private_key(public_exponent=65537, key_size=2048))
        self._presented: Counter[str] = Counter()
        self._under_way = self._most = 0
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._metadata),
                Route("/keys", self._keys),
                Route("/token", self._token, methods=["POST"]),
                Route("/counts", self._counts),
            ]
        )

    async def _metadata(self, _: Request) -> Response:
        names = {"authorization_endpoint": "/authorize", "token_endpoint": "/token"}
        endpoints = {name: self._issuer + path for name, path in names.items()}
        return JSONResponse(
            {"issuer": self._issuer, "jwks_uri": f"{self._issuer}/keys", **endpoints}
        )

    async def _keys(self, _: Request) -> Response:
        return JSONResponse({"keys": [self._key]})

    async def _token(self, request: Request) -> Response:
        token = parse_qs((await request.body()).decode())["refresh_token"][0]
        self._presented[token] += 1
        self._under_way += 1
        self._most = max(self._most, self._under_way)
        await asyncio.sleep(self._delay)
        self._under_way -= 1
        if self._presented[token] > 1:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return JSONResponse(
            {
                "access_token": f"new-access-{token}",
                "token_type": "Bearer",
                "refresh_token": f"new-{token}",
                "expires_in": 3600,
            }
        )

    async def _counts(self, _: Request) -> Response:
        calls = sum(self._presented.values())
        return JSONResponse({"calls": calls, "sessions": len(self._presented), "most": self._most})
