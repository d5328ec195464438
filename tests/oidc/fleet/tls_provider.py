"""TLS in front of a provider, at a port that stays its own while the certificate changes."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

PATIENCE = 20


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that nobody else gets, and where nobody listens unless `tls_in_front` does."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("127.0.0.1", 0))
        yield int(reserved.getsockname()[1])


@contextmanager
def tls_in_front(port: int, provider: int, certificate: Path) -> Iterator[None]:
    """Hands on to the port `provider` what comes to `port`, from a thread while the block runs."""
    front = _Front(port, provider, certificate)
    thread = Thread(target=asyncio.run, args=(front.run(),), daemon=True)
    thread.start()
    try:
        assert front.listens.wait(PATIENCE)
        yield
    finally:
        front.end()
        thread.join(PATIENCE)


@dataclass(slots=True)
class _Front:
    port: int
    provider: int
    certificate: Path
    listens: Event = field(default_factory=Event)
    _open: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)
    _loop: asyncio.AbstractEventLoop | None = None
    _ends: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate)
        self._loop = asyncio.get_running_loop()
        with closing(socket.create_server(("127.0.0.1", self.port), reuse_port=True)) as listener:
            server = await asyncio.start_server(self._serve, sock=listener, ssl=context)
            self.listens.set()
            await self._ends.wait()
            server.close()
            tasks = list(self._open)
            for client in self._open.values():
                client.transport.abort()
            await asyncio.gather(*tasks)
            await server.wait_closed()

    def end(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._ends.set)

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = client
        answers, provider = await asyncio.open_connection("127.0.0.1", self.provider)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_handed_on(reader, provider))
                group.create_task(_handed_on(answers, client))
        finally:
            for writer in (client, provider):
                writer.transport.abort()
                with suppress(OSError):
                    await writer.wait_closed()
            del self._open[task]


async def _handed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """To the end of one side, which is then the end of both."""
    with suppress(OSError):
        while content := await reader.read(65_536):
            writer.write(content)
            await writer.drain()
    writer.transport.abort()
