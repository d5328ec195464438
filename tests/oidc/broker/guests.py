"""A guest: an ordinary HTTP client on its socket, and one that writes what it likes."""

import asyncio
from dataclasses import dataclass

import httpx

NAME = "calendar.internal"
PATIENCE = 60
GET = f"GET /events HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode()


@dataclass(slots=True)
class Guest:
    """What a program in the machine can do."""

    path: str

    def client(self) -> httpx.AsyncClient:
        transport = httpx.AsyncHTTPTransport(uds=self.path)
        return httpx.AsyncClient(transport=transport, base_url=f"http://{NAME}", timeout=PATIENCE)

    async def get(self, path: str = "/events", **options: object) -> httpx.Response:
        return await self.call("GET", path, **options)

    async def call(self, method: str, path: str = "/events", **options: object) -> httpx.Response:
        async with self.client() as client:
            return await client.request(method, path, **options)  # type: ignore[arg-type]

    async def writes(self, *parts: bytes) -> bytes:
        """All that comes back for these bytes, until the connection ends."""
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_unix_connection(self.path)
            for part in parts:
                writer.write(part)
                await writer.drain()
            try:
                return await reader.read()
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

    async def asks(self, target: str, *headers: str, method: str = "GET", body: bytes = b"") -> str:
        """The status line's number, for a request that is written as it is."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {NAME}", "Connection: close", *headers]
        answer = await self.writes("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return answer[9:12].decode()
