"""The simplest client of a monitor, from the standard library alone."""

import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from generated_vmm.testing.description import Json

PATIENCE = 60  # seconds, for a real monitor that writes a guest's memory on a busy machine


@dataclass(frozen=True)
class Reply:
    """What came back, with the body as JSON when there is one."""

    status: int
    json: Json = None
    headers: Mapping[str, str] | None = None

    @property
    def fault(self) -> str:
        """The `fault_message` of a refusal."""
        assert isinstance(self.json, dict), self
        return str(self.json["fault_message"])

    @property
    def deprecated(self) -> bool:
        assert self.headers is not None
        return self.headers.get("Deprecation") == "true"


def shows(actual: object, expected: object) -> bool:
    """Whether everything expected is there; an object may have members of a newer release."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        return all(key in actual and shows(actual[key], one) for key, one in expected.items())
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(shows, actual, expected))
    return actual == expected


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = connect(self._path)


class Caller:
    """Sends one request per connection, so that no test sees what another request left behind."""

    def __init__(self, socket_path: Path) -> None:
        self._path = socket_path

    def __call__(self, method: str, path: str, body: object = None) -> Reply:
        text = body if isinstance(body, str) or body is None else json.dumps(body)
        connection = _Connection(self._path)
        try:
            connection.request(method, path, text)
            answer = connection.getresponse()
            content = answer.read()
            parsed = json.loads(content, strict=False) if content else None
            return Reply(answer.status, parsed, dict(answer.getheaders()))
        finally:
            connection.close()

    def get(self, path: str) -> dict[str, Json]:
        """The JSON object at `path`."""
        reply = self("GET", path)
        assert reply.status == 200, reply
        assert isinstance(reply.json, dict)
        return reply.json

    def accepted(self, method: str, path: str, body: object = None) -> None:
        """Sends what the monitor must accept."""
        reply = self(method, path, body)
        assert reply.status == 204, reply


def connect(path: Path) -> socket.socket:
    """A connection to a unix socket that gives up after five seconds."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(PATIENCE)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def exchange(path: Path, request: bytes, *, expect: int = 1) -> bytes:
    """Sends bytes and reads until `expect` whole answers have come."""
    with connect(path) as connection:
        connection.sendall(request)
        return read_answers(connection, expect)


def read_answers(connection: socket.socket, count: int) -> bytes:
    """The next `count` answers as they came over the wire."""
    received = b""
    while _whole_answers(received) < count:
        more = connection.recv(65536)
        assert more, received
        received += more
    return received


def _whole_answers(received: bytes) -> int:
    count = 0
    while b"\r\n\r\n" in received:
        head, _, rest = received.partition(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if len(rest) < length:
            break
        received = rest[length:]
        count += 1
    return count
