"""What the guest inside the simulated microVM does, as far as a client can see it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence

Serve = Callable[[socket.socket], None]


def echo(connection: socket.socket) -> None:
    """Send everything back until the host stops sending."""
    while received := connection.recv(4096):
        connection.sendall(received)


class SimulatedGuest:
    """The guest's side: vsock ports it listens on, statistics its balloon driver reports.

    It can be set up before the microVM starts and changed at any time, from any thread.
    """

    def __init__(self) -> None:
        self._services: dict[int, Serve] = {}
        self.balloon_statistics: Mapping[str, int] = {}
        """Optional members of GET /balloon/statistics, such as `free_memory`: bytes or counts."""
        self.boot_messages: Sequence[str] = ()
        """Lines that the guest prints on its serial console when it has booted."""

    def listen(self, port: int, serve: Serve = echo) -> None:
        """Accept vsock connections on `port`; `serve` gets each in a thread of its own."""
        self._services[port] = serve

    def close(self, port: int) -> None:
        """Accept no more connections on `port`; those there are go on."""
        self._services.pop(port, None)

    def service(self, port: int) -> Serve | None:
        """Who serves `port`; None when nobody listens there."""
        return self._services.get(port)
