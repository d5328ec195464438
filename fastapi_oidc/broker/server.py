"""An HTTP/1.1 server for one guest on one unix socket, by h11 (RFC 9112)."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import h11
from starlette.types import ASGIApp, Message, Scope

Owner: TypeAlias = tuple[int, int]
"""A user and a group, by their numbers."""

_log = logging.getLogger("fastapi_oidc.access")

MOST_CONNECTIONS: Final = 64
"""Connections of a guest at a time; more are closed."""

HEAD_SECONDS: Final = 30.0
"""Seconds for which a connection waits for a request's head."""

WRITE_SECONDS: Final = 30.0
"""Seconds for which a guest may leave unread what it was sent."""

_HEAD_BYTES: Final = 32 * 1024
_READ_BYTES: Final = 64 * 1024


@asynccontextmanager
async def serving(app: ASGIApp, path: str, owner: Owner | None = None) -> AsyncIterator[None]:
    """Serve `app` at `path` within the block, and break off what is under way at its end."""
    listener = _listener(path, owner)
    inode, connections = os.stat(path).st_ino, set[asyncio.Task[None]]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(connections) < MOST_CONNECTIONS:
            connections.add(task)
            task.add_done_callback(connections.discard)
            with suppress(OSError, asyncio.CancelledError):
                await _Connection(app, reader, writer).run()
        writer.transport.abort() if task.cancelling() else writer.close()

    server = await asyncio.start_unix_server(connected, sock=listener)
    try:
        yield
    finally:
        server.close()
        for task in [*connections]:
            task.cancel()
        if connections:
            await asyncio.wait([*connections])
        with suppress(FileNotFoundError):
            if os.stat(path).st_ino == inode:
                os.unlink(path)


def _listener(path: str, owner: Owner | None) -> socket.socket:
    """A socket at `path`, to which nobody can connect before it has its mode and its owner."""
    _remove_dead(path)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(path)
        os.chmod(path, 0o600)
        if owner is not None:
            os.chown(path, *owner)
        listener.listen(MOST_CONNECTIONS)
    except OSError:
        listener.close()
        raise
    return listener


def _remove_dead(path: str) -> None:
    """Remove a socket to which nobody listens; any other file stays, and `bind` fails."""
    with suppress(FileNotFoundError), socket.socket(socket.AF_UNIX) as probe:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)


class _Connection:
    """One connection: requests one after another, as h11 reads them."""

    def __init__(
        self, app: ASGIApp, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._app, self._reader, self._writer = app, reader, writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)

    async def run(self) -> None:
        """Answer requests until the guest or an error ends the connection."""
        try:
            while await self._answered():
                self._http.start_next_cycle()
        except h11.RemoteProtocolError as error:
            await self._refuse(error.error_status_hint)
        except TimeoutError:
            pass

    async def _answered(self) -> bool:
        """Answer one request; whether another one may follow."""
        async with asyncio.timeout(HEAD_SECONDS):
            head = await self._event()
        if not isinstance(head, h11.Request):
            return False
        try:
            await self._app(_scope_of(head), self._receive, self._send)
        except h11.RemoteProtocolError:
            raise
        except Exception:
            _log.exception("the answer to a guest breaks off")
            self._writer.transport.abort()  # no end of the answer that could pass for its end
            return False
        if self._http.their_state is h11.SEND_BODY:
            self._http.next_event()  # the end of a body that nobody has read
        return self._http.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}

    async def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._write(h11.InformationalResponse(status_code=100, headers=[]))
            self._http.receive_data(await self._reader.read(_READ_BYTES))
        return event

    async def _receive(self) -> Message:
        if self._http.their_state is not h11.SEND_BODY:
            return {"type": "http.request", "body": b"", "more_body": False}
        event = await self._event()
        if isinstance(event, h11.Data):
            return {"type": "http.request", "body": bytes(event.data), "more_body": True}
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message["headers"]
            await self._write(h11.Response(status_code=message["status"], headers=headers))
            return
        if message.get("body"):
            await self._write(h11.Data(data=message["body"]))
        if not message.get("more_body"):
            await self._write(h11.EndOfMessage())

    async def _write(self, event: h11.Event) -> None:
        if data := self._http.send(event):
            self._writer.write(data)
            async with asyncio.timeout(WRITE_SECONDS):
                await self._writer.drain()

    async def _refuse(self, status: int) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [("content-length", "0"), ("connection", "close")]
            await self._write(h11.Response(status_code=status, headers=headers))
            await self._write(h11.EndOfMessage())


def _scope_of(head: h11.Request) -> Scope:
    """The ASGI scope. A target with a scheme, as for a proxy, has its own host (RFC 9112 3.2.2)."""
    target, headers = bytes(head.target), [(bytes(n), bytes(text)) for n, text in head.headers]
    if target.startswith(b"http://"):
        host, slash, rest = target[7:].partition(b"/")
        target = slash + rest
        headers = [(b"host", host), *(pair for pair in headers if pair[0] != b"host")]
    path, _, query = target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": head.http_version.decode(),
        "method": head.method.decode(),
        "scheme": "http",
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "client": None,
        "server": None,
    }
