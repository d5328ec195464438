"""What the guest inside the simulated microVM does, as far as a client can see it."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

LONGEST_COMMAND: Final = 32
FIRST_HOST_PORT: Final = 1 << 30
POLL_SECONDS: Final = 0.02

Serve = Callable[[socket.socket], None]


def echo(connection: socket.socket) -> None:
    """Send everything back until the host stops sending."""
    while received := connection.recv(4096):
        connection.sendall(received)


class SimulatedGuest:
    """The guest's side: when its drivers are up, its vsock ports, what its balloon reports.

    It can be set up before the microVM starts and changed at any time, from any thread.
    """

    def __init__(self) -> None:
        self._services: dict[int, Serve] = {}
        self.boot_seconds: float | None = 0.1
        """From the start of the guest until its drivers are up; None for `finish_boot` alone."""
        self.boot_messages: Sequence[str] = ()
        """Lines that the guest prints on its serial console when it has booted."""
        self.balloon_statistics: Mapping[str, int] = {}
        """Optional members of GET /balloon/statistics, such as `free_memory`: bytes or counts."""

    def listen(self, port: int, serve: Serve = echo) -> None:
        """Accept vsock connections on `port`; `serve` gets each in a thread of its own."""
        self._services[port] = serve

    def close(self, port: int) -> None:
        """Accept no more connections on `port`; those there are go on."""
        self._services.pop(port, None)

    def service(self, port: int) -> Serve | None:
        """Who serves `port`; None when nobody listens there."""
        return self._services.get(port)


class _Handshake(socketserver.BaseRequestHandler):
    """`CONNECT <port>` is answered `OK <host port>`, or by closing when nobody listens there."""

    server: VsockBackend
    request: socket.socket

    def handle(self) -> None:
        self.server.connections.add(self.request)
        with contextlib.suppress(OSError):  # the host side went away
            service = self._requested_service()
            if service is not None:
                self.request.sendall(b"OK %d\n" % next(self.server.host_ports))
                service(self.request)
        self.server.connections.discard(self.request)

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


class VsockBackend(socketserver.ThreadingUnixStreamServer):
    """The host's side of the vsock device: bound at once; connections wait for the driver."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, find_service: Callable[[int], Serve | None]) -> None:
        """Bind the socket. Raises `OSError`, also when the path exists already."""
        self.find_service = find_service
        self.host_ports: Iterator[int] = itertools.count(FIRST_HOST_PORT)
        self.connections: set[socket.socket] = set()
        self._thread: threading.Thread | None = None
        super().__init__(path, _Handshake)

    def activate(self) -> None:
        """Serve what connects, and what has connected."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self.serve_forever, args=(POLL_SECONDS,), daemon=True
            )
            self._thread.start()

    def close(self, *, remove_file: bool) -> None:
        """Break all connections and accept no more. Raises `OSError` when there is no file."""
        if self._thread is not None:
            self.shutdown()
            self._thread.join()
            self._thread = None
        self.server_close()
        for connection in tuple(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if remove_file:
            os.unlink(str(self.server_address))
