"""A server on a unix socket that does what a test writes down, and remembers what it was sent."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

OK = b"HTTP/1.1 200 \r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
NO_CONTENT = b"HTTP/1.1 204 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\r\n"


def answer(status: int, body: bytes, *headers: bytes) -> bytes:
    """An answer with the headers the monitor writes."""
    lines = [b"HTTP/1.1 %d " % status, b"Server: Firecracker API", b"Connection: keep-alive"]
    lines += [*headers, b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Wire:
    """The server's end of one connection."""

    def __init__(self, connection: socket.socket, requests: list[bytes]) -> None:
        self._connection = connection
        self._requests = requests
        self.latest = b""

    def request(self) -> bool:
        """Waits for one whole request and remembers it; false when the client has gone."""
        received = b""
        while not _is_whole(received):
            more = self._connection.recv(65_536)
            if not more:
                return False
            received += more
        self.latest = received
        self._requests.append(received)
        return True

    def receive(self) -> bytes:
        """The next bytes, whatever they are; empty when the client has gone."""
        return self._connection.recv(65_536)

    def send(self, content: bytes) -> None:
        """Sends the bytes as they are."""
        self._connection.sendall(content)

    def answer_all(self, content: bytes = OK) -> None:
        """Gives every further request the same answer."""
        while self.request():
            self.send(content)


Play: TypeAlias = Callable[[Wire], None]


class ScriptedServer:
    """Plays `play` on each connection, in a thread of its own."""

    def __init__(self, path: Path, play: Play) -> None:
        self.path = path
        self.requests: list[bytes] = []
        self.connections: list[socket.socket] = []
        self._play = play
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(10)
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def sent(self) -> list[tuple[str, object]]:
        """The requests as `METHOD /path` and their JSON, None without a body."""
        return [_read(request) for request in self.requests]

    def settle(self) -> None:
        """Waits until all connections so far have been played to their end."""
        for thread in self._threads[1:]:
            thread.join()

    def stop(self) -> None:
        """Closes everything and waits for the threads."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.settle()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,))
                thread.start()
                self._threads.append(thread)

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            self._play(Wire(connection, self.requests))


def _is_whole(received: bytes) -> bool:
    head, found, body = received.partition(b"\r\n\r\n")
    lengths = [
        int(line.partition(b":")[2])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    ]
    return bool(found) and len(body) >= sum(lengths)


def _read(request: bytes) -> tuple[str, object]:
    head, _, body = request.partition(b"\r\n\r\n")
    line = head.split(b"\r\n")[0].decode().removesuffix(" HTTP/1.1")
    return line, json.loads(body) if body else None


@contextlib.contextmanager
def full_queue(path: Path) -> Iterator[None]:
    """A listener on the path that accepts nobody and has as many waiting as it may."""
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as waiting:
        listener.bind(str(path))
        listener.listen(0)
        for _ in range(2):
            client = waiting.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(str(path))
        yield


Serve: TypeAlias = Callable[[Play], ScriptedServer]


def served(path: Path) -> Iterator[Serve]:
    """Starts servers on the path, each playing what it is given, and stops them at last."""
    servers: list[ScriptedServer] = []

    def start(play: Play) -> ScriptedServer:
        servers.append(ScriptedServer(path, play))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
