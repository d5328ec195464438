"""An answer that has begun and does not end by itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import httpx

from tests.oidc.broker.apis import Received
from tests.oidc.broker.guests import PATIENCE, Guest


@dataclass(slots=True)
class Stream:
    """The API's side: one part, and then silence until the connection ends."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await writer.drain()
        with suppress(OSError):
            assert await request.after.read() == b""
        self.ended.set()

    async def until_ended(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.ended.wait()


async def silent(request: Received, _: asyncio.StreamWriter) -> None:
    """No answer, until the connection ends."""
    await request.after.read()


@asynccontextmanager
async def streaming(guest: Guest) -> AsyncIterator[AsyncIterator[bytes]]:
    """The guest's side: a stream whose first part has come."""
    async with guest.client() as client, client.stream("GET", "/events") as answer:
        parts = answer.aiter_raw()
        assert await anext(parts) == b"first"
        yield parts


async def is_cut(parts: AsyncIterator[bytes]) -> bool:
    """Whether the stream breaks off, without an end that could pass for its own."""
    try:
        async with asyncio.timeout(PATIENCE):
            await anext(parts)
    except httpx.RemoteProtocolError:
        return True
    return False
