"""The behavior of the guest in the simulated microVM, as far as a client can see it."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from generated_vmm.misuse import require_kind, require_list, tell_delay
from generated_vmm.testing.agent import HostAgent

LONGEST_COMMAND: Final = 32
FIRST_HOST_PORT: Final = 1 << 30
PAUSE: Final = 0.005  # seconds between looks at a guest that is paused

Serve = Callable[[socket.socket], None]


def echo(connection: socket.socket) -> None:
    """Send all bytes back until the host stops sending."""
    while received := connection.recv(4096):
        connection.sendall(received)


class SimulatedGuest:
    """The guest: when its drivers are up, its vsock ports, and its balloon's statistics.

    It can be set up before the microVM starts and changed at any time, from any thread.
    """

    __slots__ = ("_agent", "_messages", "_seconds", "_services", "balloon_statistics")

    def __init__(self) -> None:
        self._services: dict[int, Serve] = {}
        self._agent: HostAgent | None = None
        self._seconds: float | None = 0.1
        self._messages: Sequence[str] = ()
        self.balloon_statistics: Mapping[str, int] = {}
        """Optional members of GET /balloon/statistics, such as `free_memory`: bytes or counts."""

    @property
    def boot_seconds(self) -> float | None:
        """Seconds from the guest's start until its drivers are up; None: until `finish_boot`.

        Raises ValueError.
        """
        return self._seconds

    @boot_seconds.setter
    def boot_seconds(self, seconds: float | None) -> None:
        require_kind("boot_seconds", seconds, "a number of seconds, or None", int, float)
        tell_delay("boot_seconds", seconds)
        self._seconds = seconds

    @property
    def boot_messages(self) -> Sequence[str]:
        """Lines that the guest prints on its serial console after booting. Raises TypeError."""
        return self._messages

    @boot_messages.setter
    def boot_messages(self, lines: Sequence[str]) -> None:
        require_list("boot_messages", lines, "a list of lines")
        self._messages = lines

    def listen(self, port: int, serve: Serve = echo) -> None:
        """Accept vsock connections on `port`; `serve` gets each in a thread of its own."""
        require_kind("port", port, "a number", int)
        self._services[port] = serve

    def close(self, port: int) -> None:
        """Accept no more connections on `port`; existing ones continue."""
        self._services.pop(port, None)

    def run_agent(self, port: int = 1024) -> None:
        """Run the real agent of `generated_vmm.guest` as a process of this host, on `port`.

        Nothing is isolated: its programs are processes of this user, and its files those of this
        host. It says so in the log and in `AgentInfo.isolated`, and ends with the machine.
        """
        self.end_agent()
        self._agent = HostAgent()
        self.listen(port, self._agent.serve)

    def end_agent(self) -> None:
        """End the agent and its programs, if `run_agent` has started one."""
        if self._agent is not None:
            self._agent.stop()
            self._agent = None

    def service(self, port: int) -> Serve | None:
        """The function that serves `port`; None if nothing listens there."""
        return self._services.get(port)


class VsockBackend:
    """The host's side of the vsock device: bound immediately; connections wait for the driver.

    The response to `CONNECT <port>` is `OK <host port>`, or the end of the connection if nothing
    listens on the port. A guest that is paused responds after the resume; connections that are
    open go on meanwhile.
    """

    def __init__(
        self,
        path: str,
        find_service: Callable[[int], Serve | None],
        is_paused: Callable[[], bool],
    ) -> None:
        """Bind the socket. Raises `OSError`, also if the path exists."""
        self._path, self._find_service, self._is_paused = path, find_service, is_paused
        self._host_ports = itertools.count(FIRST_HOST_PORT)
        self._connections: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._turn = threading.Lock()
        self._is_closed = False
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(path)
        except OSError:
            self._listener.close()
            raise
        self._listener.listen(128)

    def activate(self) -> None:
        """Serve new and existing connections."""
        with self._turn:  # the microVM may end in this moment
            if not self._is_closed and self._thread.ident is None:
                self._thread.start()

    def close(self, *, remove_file: bool) -> None:
        """Break all connections and accept no more. Raises `OSError` if there is no file."""
        with self._turn:
            self._is_closed = True
        for end in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        if self._thread.ident is not None:
            self._thread.join()
        self._listener.close()
        if remove_file:
            os.unlink(self._path)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                self._connections.add(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # the host side went away
            service = self._requested_service(connection)
            while self._is_paused() and not self._is_closed:
                time.sleep(PAUSE)
            if service is not None:
                connection.sendall(b"OK %d\n" % next(self._host_ports))
                service(connection)
        self._connections.discard(connection)

    def _requested_service(self, connection: socket.socket) -> Serve | None:
        command = b""
        while not command.endswith(b"\n") and len(command) < LONGEST_COMMAND:
            byte = connection.recv(1)
            if not byte:
                return None
            command += byte
        verb, _, port = command.partition(b" ")
        if verb.lower() != b"connect" or not port.strip().isdigit():
            return None
        return self._find_service(int(port))
