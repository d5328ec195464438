"""A guest's call by the broker beside a direct call of the same API, wall time.

API, broker and guest share a process, so that what the guest's own client takes is in both.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import httpx

from fastapi_oidc.broker import Broker, Limits, Route
from tools.benchmarks.applications import our_application, session_of, signed_in
from tools.benchmarks.figures import Figure
from tools.benchmarks.provider import Lives, RotatingProvider
from tools.benchmarks.rounds import awaited, costs

ROUNDS, CALLS = 41, 25
ISSUER: Final = "https://op.example"
NAME: Final = "api.internal"
ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\n\r\nok"


def figures() -> Iterator[Figure]:
    """Milliseconds for a call, and what the broker adds."""
    with asyncio.Runner() as runner:
        made = measuring()
        direct, brokered = runner.run(made.__aenter__())
        measured = costs(
            {
                "direct": awaited(runner, lambda: direct.get("/events")),
                "brokered": awaited(runner, lambda: brokered.get("/events")),
            },
            rounds=ROUNDS,
            calls=CALLS,
        )
        runner.run(made.__aexit__(None, None, None))
    for name, cost in measured.items():
        yield Figure(f"a call of an API, {name}", cost.median / 1000, "ms")
    added = measured["brokered"].above(measured["direct"]).median / 1000
    yield Figure("what the broker adds to a call", added, "ms", 1.0)


@asynccontextmanager
async def measuring() -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """A client of the API, and a guest with access to it."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    provider = RotatingProvider(ISSUER, Lives())
    app, oidc = our_application(ISSUER, provider=provider.app, session_store="memory")
    [cookie] = await signed_in(app, 1)
    route = Route(url=url, own_token=True, allow=["GET /events"])
    broker = Broker(oidc, {NAME: route}, limits=Limits(calls=10**6))
    session = await session_of(app, cookie)
    access = await broker.give(session, to="m1", routes=[NAME], until=timedelta(hours=1))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/guest"
        guest = httpx.AsyncHTTPTransport(uds=path)
        async with (
            broker.serve(access, path),
            httpx.AsyncClient(base_url=url) as direct,
            httpx.AsyncClient(transport=guest, base_url=f"http://{NAME}") as brokered,
        ):
            (await brokered.get("/events")).raise_for_status()
            yield direct, brokered
    await broker.aclose()
    server.close()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request of a connection alike."""
    while await reader.readuntil(b"\r\n\r\n"):
        writer.write(ANSWER)
        await writer.drain()
