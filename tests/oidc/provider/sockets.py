"""A raw TCP server on loopback that answers as badly as a test asks."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Script = Callable[[asyncio.StreamWriter], Awaitable[None]]

STEPS_TO_SERVE = 5
"""Steps of the event loop after which an accepted connection is served, and can be ended. One that
is accepted and not served yet when the listener closes is never closed.
"""


def whole(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """A complete HTTP/1.1 answer as bytes."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Server:
    """Runs one script per connection, the last one for all further connections."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self.connections = 0
        self.requests: list[str] = []
        self.reached = asyncio.Event()
        self.url = ""
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        script = self._scripts[min(self.connections, len(self._scripts) - 1)]
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = writer
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head.decode())
                self.reached.set()
                await script(writer)
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def end(self) -> None:
        """Close the connections, also those that wait for a script or for the client's end."""
        for task, writer in self._serving.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*self._serving, return_exceptions=True)


@asynccontextmanager
async def listening(*scripts: Script) -> AsyncIterator[Server]:
    """A server on a free port of 127.0.0.1 until the block ends."""
    server = Server(*scripts)
    listener = await asyncio.start_server(server.serve_connection, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        for _ in range(STEPS_TO_SERVE):
            await asyncio.sleep(0)
        listener.close()
        await server.end()
        await listener.wait_closed()
