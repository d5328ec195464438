"""The monitor's HTTP layer on bytes: requests in, answers out, with the quirks a client meets.

The monitor reads at most 1024 bytes at a time, every line must fit into that, a body comes through
Content-Length alone, and after a refusal the connection goes on as if nothing had been read. What
is left of a refused request is then taken for the next one; clients see that as stale answers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from generated_vmm.testing.wire.http_headers import Headers, HttpRefusal

BUFFER_SIZE: Final = 1024
CRLF: Final = b"\r\n"
METHODS: Final = frozenset({b"GET", b"PUT", b"PATCH", b"DELETE"})
VERSIONS: Final = frozenset({b"HTTP/1.0", b"HTTP/1.1"})
SERVER_FULL: Final = (
    b"HTTP/1.1 503 \r\nServer: Firecracker API\r\nConnection: close\r\n"
    b'Content-Length: 40\r\n\r\n{ "error": "Too many open connections" }'
)


@dataclass(frozen=True)
class Request:
    """One request as the API thread gets it; `body` is None without a Content-Length above 0."""

    method: str
    target: str
    body: bytes | None

    @property
    def path(self) -> str:
        """The path with its query, from origin or absolute form; empty for any other target."""
        if self.target.startswith("http://"):
            _, slash, path = self.target[len("http://") :].partition("/")
            return slash + path
        return self.target if self.target.startswith("/") else ""


@dataclass(frozen=True)
class Answer:
    """A status with its JSON; `exit_code` ends the simulated process once the answer is sent."""

    status: int
    body: bytes | None = None
    deprecated: bool = False
    exit_code: int | None = None

    @property
    def fault(self) -> str:
        """The `fault_message` of a refusal; empty for any other answer."""
        said = json.loads(self.body or b"{}")
        return str(said.get("fault_message", "")) if isinstance(said, dict) else ""

    def encode(self) -> bytes:
        """The bytes the monitor writes: no reason phrase, no Date, no length without a body."""
        lines = [f"HTTP/1.1 {self.status} ", "Server: Firecracker API", "Connection: keep-alive"]
        if self.deprecated:
            lines.append("Deprecation: true")
        if self.body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(self.body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + (self.body or b"")


CONTINUE: Final = Answer(100)


def refusal(reason: HttpRefusal) -> Answer:
    """The HTTP layer's own 400; its body holds a raw line feed and so is no strict JSON."""
    lost = "All previous unanswered requests will be dropped."
    return Answer(400, f'{{ "error": "{reason}\n{lost}" }}'.encode())


class RequestParser:
    """Turns what one connection sends into requests, one read of at most `room` bytes at a time."""

    def __init__(self, *, payload_limit: int) -> None:
        self._payload_limit = payload_limit
        self._step = self._request_line
        self._carry = b""
        self._head: tuple[str, str] = ("", "")
        self._headers = Headers()
        self._body = bytearray()
        self._arrived: list[Request] = []
        self.awaits_continue = False

    @property
    def room(self) -> int:
        """How many bytes the next read may bring."""
        return BUFFER_SIZE - len(self._carry)

    def feed(self, chunk: bytes) -> list[Request]:
        """The requests that `chunk` completes. Raises `HttpRefusal`, which drops them all.

        The refused bytes are gone, but the parser stays where it was.
        """
        self._arrived = []
        window = self._carry + chunk
        start: int | None = 0
        while start is not None:
            rest = start
            start = self._step(window, rest)
        return self._arrived

    def _line(self, window: bytes, start: int, refused: HttpRefusal) -> bytes | None:
        end = window.find(CRLF, start)
        if end >= 0:
            return window[start:end]
        if start == 0 and len(window) == BUFFER_SIZE:
            raise refused
        self._carry = window[start:]
        return None

    def _request_line(self, window: bytes, start: int) -> int | None:
        line = self._line(window, start, HttpRefusal("Invalid request."))
        if line is None:
            return None
        self._head = _parse_request_line(line)
        self._headers = Headers()
        self._step = self._header_line
        return start + len(line) + len(CRLF)

    def _header_line(self, window: bytes, start: int) -> int | None:
        too_long = HttpRefusal.of_header(
            f"Invalid content length. Header: {window.decode(errors='replace')}"
        )
        line = self._line(window, start, too_long)
        if line is None:
            return None
        if line:
            self._headers = self._headers.with_line(line)
        else:
            self._end_headers()
        return start + len(line) + len(CRLF)

    def _end_headers(self) -> None:
        length = self._headers.content_length
        if length > self._payload_limit:
            raise HttpRefusal(
                f"Request payload with size {length} is larger than the limit of "
                f"{self._payload_limit} allowed by server."
            )
        if length:
            self.awaits_continue |= self._headers.expects_continue
            self._step = self._body_part
        else:
            self._complete(None)

    def _body_part(self, window: bytes, start: int) -> int | None:
        missing = self._headers.content_length - len(self._body)
        part = window[start : start + missing]
        self._body += part
        if len(part) < missing:
            self._carry = b""
            return None
        self._complete(bytes(self._body))
        self._body.clear()
        return start + len(part)

    def _complete(self, body: bytes | None) -> None:
        method, target = self._head
        self._arrived.append(Request(method, target, body))
        self._step = self._request_line


def _parse_request_line(line: bytes) -> tuple[str, str]:
    parts = line.split(b" ", 2)
    if len(parts) < 3:
        raise HttpRefusal("Invalid request.")
    method, target, version = parts
    if method not in METHODS:
        raise HttpRefusal("Invalid HTTP Method: Unsupported HTTP method.")
    if not target:
        raise HttpRefusal("Invalid URI: Empty URI not allowed.")
    try:
        text = target.decode()
    except UnicodeDecodeError:
        raise HttpRefusal("Invalid URI: Cannot parse URI as UTF-8.") from None
    if version not in VERSIONS:
        raise HttpRefusal("Invalid HTTP Version: Unsupported HTTP version.")
    return method.decode(), text
