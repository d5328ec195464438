"""A call of a guest by the broker, beside the same call with the token itself; wall time.

The API is an asyncio server of this process on 127.0.0.1, and both callers keep their connections.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta
from pathlib import Path

import httpx
from fastapi import FastAPI

from fastapi_oidc import OIDC, DownstreamAPI, OIDCMiddleware, OIDCSettings
from fastapi_oidc.broker import Broker, Limits, Route
from fastapi_oidc.testing import DevClient, DevProvider, DevResource, DevUser, sign_in
from tools.benchmarks.figures import Figure
from tools.benchmarks.redis_server import redis_server
from tools.benchmarks.rounds import Batch, awaited, costs

ROUNDS, CALLS = 61, 20
NAME, RESOURCE, APP = "calendar.internal", "https://calendar.example.com", "https://app.test"
REDIS_REASON = "Each call reads Redis once; half of the rest is the second HTTP hop."


def figures() -> Iterator[Figure]:
    """Milliseconds for a call, and what the broker adds."""
    with ExitStack() as stack:
        runner, url = stack.enter_context(asyncio.Runner()), stack.enter_context(redis_server())
        opened = AsyncExitStack()
        stack.callback(lambda: runner.run(opened.aclose()))
        api = runner.run(api_served(opened))
        direct = httpx.AsyncClient(headers={"Authorization": f"Bearer {secrets.token_hex()}"})
        runner.run(opened.enter_async_context(direct))
        cases: dict[str, Batch] = {"direct": awaited(runner, lambda: direct.get(f"{api}/events"))}
        for kind, store in {"memory": "memory", "Redis": url}.items():
            guest = runner.run(guest_of(opened, api, store))
            cases[kind] = awaited(runner, lambda guest=guest: guest.get("/events"))  # type: ignore[misc]
        measured = costs(cases, rounds=ROUNDS, calls=CALLS)
    yield Figure("a direct call with httpx", measured["direct"].median / 1000, "ms")
    for kind in ("memory", "Redis"):
        cost = measured[kind]
        added = cost.above(measured["direct"]).median / 1000
        yield Figure(f"a brokered call, {kind} store", cost.median / 1000, "ms")
        reason = REDIS_REASON if kind == "Redis" else ""
        yield Figure(f"what the broker adds, {kind} store", added, "ms", 1.0, reason)


async def api_served(opened: AsyncExitStack) -> str:
    """The URL of an API that gives everyone the same answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n[1, 2, 3, 4]")
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    opened.callback(server.close)
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def guest_of(opened: AsyncExitStack, api: str, store: str) -> httpx.AsyncClient:
    """The guest of a machine to which Alice has given access."""
    secret = secrets.token_urlsafe(32)
    client = DevClient(
        client_id="app", client_secret=secret, redirect_uris=[f"{APP}/auth/callback"]
    )
    op = DevProvider(users=[DevUser("alice")], clients=[client], resources=[DevResource(RESOURCE)])
    settings = OIDCSettings(
        issuer=op.issuer,
        client_id="app",
        client_secret=secret,
        cookie_secret=secrets.token_urlsafe(32),
        base_url=APP,
    )
    oidc = OIDC(
        settings,
        session_store=store,
        downstream_apis=[DownstreamAPI(grant="token_exchange", resource=RESOURCE)],
        transport=httpx.ASGITransport(op.app),
    )
    opened.push_async_callback(oidc.aclose)
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    async with op.browser(app, base_url=APP) as browser:
        await sign_in(browser, "/auth/login?return_to=/docs", user="alice")
    [session] = await oidc.sessions_of("alice")
    route = Route(url=api, resource=RESOURCE, allow=["GET /events"])
    broker = Broker(oidc, {NAME: route}, limits=Limits(calls=10**9))
    access = await broker.give(session, to="m1", routes=[NAME], until=timedelta(hours=2))
    path = Path(opened.enter_context(tempfile.TemporaryDirectory()), "vsock_8080")
    await opened.enter_async_context(broker.serve(access, str(path)))
    guest = httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=str(path)), base_url=f"http://{NAME}"
    )
    return await opened.enter_async_context(guest)
