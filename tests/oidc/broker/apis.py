"""An API on 127.0.0.1 that a test scripts byte by byte, and that records what has reached it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(slots=True)
class Received:
    """A request as it was on the wire."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    after: asyncio.StreamReader
    """What comes on the connection after the request."""

    def header(self, name: str) -> str | None:
        values = [value for each, value in self.headers if each == name]
        assert len(values) < 2, f"{name} came twice"
        return values[0] if values else None

    @property
    def token(self) -> str:
        return (self.header("authorization") or "").partition(" ")[2]


Answer: TypeAlias = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


def says(
    body: bytes = b"ok", status: str = "200 OK", *headers: str, length: int | None = None
) -> Answer:
    """A whole answer; `length` is the one that it announces."""

    async def answer(_: Received, writer: asyncio.StreamWriter) -> None:
        lines = [
            f"HTTP/1.1 {status}",
            f"Content-Length: {len(body) if length is None else length}",
            *headers,
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    return answer


@dataclass(slots=True)
class Api:
    """The server; `answer` may be replaced at any time."""

    answer: Answer = field(default_factory=says)
    received: list[Received] = field(default_factory=list)
    port: int = 0
    connections: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            while request := await _request(reader):
                self.received.append(request)
                await self.answer(request, writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


async def _request(reader: asyncio.StreamReader) -> Received | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    pairs = [line.split(": ", 1) for line in lines]
    headers = [(name.lower(), value) for name, value in pairs]
    return Received(method, target, headers, await _body(reader, dict(headers)), reader)


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    assert not {"content-length", "transfer-encoding"} <= headers.keys(), "two framings"
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return body


@asynccontextmanager
async def serving(api: Api) -> AsyncIterator[Api]:
    server = await asyncio.start_server(api.serve, "127.0.0.1", 0)
    api.port = server.sockets[0].getsockname()[1]
    try:
        yield api
    finally:
        server.close()
        for task in api.tasks:
            task.cancel()
        if api.tasks:
            await asyncio.wait(api.tasks)
