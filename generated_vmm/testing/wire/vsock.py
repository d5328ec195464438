"""The host's side of the vsock device: a unix socket with the CONNECT handshake."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import Final

from generated_vmm.testing.guest import Serve

LONGEST_COMMAND: Final = 32
FIRST_HOST_PORT: Final = 1 << 30
POLL_SECONDS: Final = 0.02


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, find_service: Callable[[int], Serve | None]) -> None:
        self.find_service = find_service
        self.host_ports: Iterator[int] = itertools.count(FIRST_HOST_PORT)
        self.open_connections: set[socket.socket] = set()
        super().__init__(path, _Handshake)


class _Handshake(socketserver.BaseRequestHandler):
    """`CONNECT <port>` is answered `OK <host port>`, or by closing when nobody listens there."""

    server: _Server
    request: socket.socket

    def handle(self) -> None:
        self.server.open_connections.add(self.request)
        try:
            service = self._requested_service()
            if service is not None:
                self.request.sendall(b"OK %d\n" % next(self.server.host_ports))
                service(self.request)
        except OSError:
            return  # the host side went away
        finally:
            self.server.open_connections.discard(self.request)

    def _requested_service(self) -> Serve | None:
        command = b""
        while not command.endswith(b"\n") and len(command) < LONGEST_COMMAND:
            byte = self.request.recv(1)
            if not byte:
                return None
            command += byte
        verb, _, port = command.partition(b" ")
        if verb.lower() != b"connect" or not port.strip().isdigit():
            return None
        return self.server.find_service(int(port))


class VsockBackend:
    """Bound to its path at once; connections wait there until the guest runs."""

    def __init__(self, path: str, find_service: Callable[[int], Serve | None]) -> None:
        """Bind the socket. Raises `OSError`, also when the path exists already."""
        self._path = path
        self._server = _Server(path, find_service)
        self._thread: threading.Thread | None = None

    def activate(self) -> None:
        """Serve what connects, and what has connected."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._server.serve_forever, args=(POLL_SECONDS,), daemon=True
            )
            self._thread.start()

    def close(self, *, remove_file: bool) -> None:
        """Break all connections and accept no more. Raises `OSError` when there is no file."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()
        for connection in tuple(self._server.open_connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if remove_file:
            os.unlink(self._path)
