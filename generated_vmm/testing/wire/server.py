"""The socket side of the monitor: one thread, one request at a time, ten connections."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from generated_vmm.testing.wire.faults import Delivery, Faults
from generated_vmm.testing.wire.http_headers import HttpRefusal
from generated_vmm.testing.wire.http_layer import (
    CONTINUE,
    SERVER_FULL,
    Answer,
    Request,
    RequestParser,
    refusal,
)

MAX_CONNECTIONS: Final = 10


@dataclass(eq=False)
class Connection:
    """One client: what it is sending, and what is still to be written to it."""

    peer: socket.socket
    parser: RequestParser
    unsent: list[bytes] = field(default_factory=list)
    closing: bool = False


class ApiServer:
    """Serves a listening socket until stopped or until an answer ends the simulated process."""

    def __init__(
        self,
        listener: socket.socket,
        respond: Callable[[Request], Answer],
        faults: Faults,
        *,
        payload_limit: int,
    ) -> None:
        self._listener = listener
        self._respond = respond
        self._faults = faults
        self._payload_limit = payload_limit
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        self._wake, self._waker = socket.socketpair()
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Make `serve` return soon, also from within a delay. Safe from any thread and signal."""
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def serve(self) -> None:
        """Answer clients. Everything is closed on return; the socket's file is left alone."""
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake, selectors.EVENT_READ, None)
        try:
            while not self._stopping.is_set():
                for key, _ in self._selector.select():
                    if key.data is not None and not self._stopping.is_set():
                        key.data()
        finally:
            self.close()

    def close(self) -> None:
        """Close the listening socket and every connection; not for while `serve` runs."""
        for connection in list(self._connections):
            self._drop(connection)
        self._selector.close()
        for end in (self._listener, self._wake, self._waker):
            end.close()

    def _accept(self) -> None:
        peer, _ = self._listener.accept()
        full = len(self._connections) >= MAX_CONNECTIONS
        if full or self._faults.take_refused_connection():
            with contextlib.suppress(OSError):
                peer.sendall(SERVER_FULL if full else b"")
            peer.close()
            return
        peer.setblocking(False)
        connection = Connection(peer, RequestParser(payload_limit=self._payload_limit))
        self._connections.add(connection)
        self._selector.register(peer, selectors.EVENT_READ, lambda: self._read(connection))

    def _drop(self, connection: Connection) -> None:
        self._selector.unregister(connection.peer)
        connection.peer.close()
        self._connections.discard(connection)

    def _read(self, connection: Connection) -> None:
        try:
            chunk = connection.peer.recv(connection.parser.room)
        except OSError:
            chunk = b""
        if not chunk:
            self._drop(connection)
            return
        for request in self._requests_in(connection, chunk):
            if not self._stopping.is_set():
                self._serve_one(connection, request)
        if connection.unsent or connection.closing:
            self._start_writing(connection)

    def _requests_in(self, connection: Connection, chunk: bytes) -> list[Request]:
        refused: list[bytes] = []
        requests: list[Request] = []
        try:
            requests = connection.parser.feed(chunk)
        except HttpRefusal as reason:
            refused.append(refusal(reason).encode())
        if connection.parser.awaits_continue:
            connection.parser.awaits_continue = False
            connection.unsent.append(CONTINUE.encode())
        connection.unsent += refused
        return requests

    def _serve_one(self, connection: Connection, request: Request) -> None:
        answer = self._respond(request)
        delivery = self._faults.take(answer.encode())
        self._deliver(connection, delivery)
        if answer.exit_code is not None:
            self._send_last(connection)

    def _deliver(self, connection: Connection, delivery: Delivery) -> None:
        if delivery.delay:
            self._stopping.wait(delivery.delay)
        if connection.closing:
            return
        if delivery.content:
            connection.unsent.append(delivery.content)
        connection.closing = delivery.close

    def _send_last(self, connection: Connection) -> None:
        """The process ends: whoever has this answer finds nobody listening any more."""
        self._selector.unregister(self._listener)
        self._listener.close()
        connection.peer.setblocking(True)
        connection.peer.settimeout(1.0)
        with contextlib.suppress(OSError):
            connection.peer.sendall(b"".join(connection.unsent))
        connection.unsent.clear()
        self._stopping.set()

    def _start_writing(self, connection: Connection) -> None:
        # While it has something to write, the monitor does not read from that client.
        self._selector.modify(
            connection.peer, selectors.EVENT_WRITE, lambda: self._write(connection)
        )

    def _write(self, connection: Connection) -> None:
        try:
            while connection.unsent:
                sent = connection.peer.send(connection.unsent[0])
                rest = connection.unsent.pop(0)[sent:]
                if rest:
                    connection.unsent.insert(0, rest)
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)
            return
        if connection.closing:
            self._drop(connection)
        else:
            self._selector.modify(
                connection.peer, selectors.EVENT_READ, lambda: self._read(connection)
            )
