"""The monitor's HTTP layer on bytes: requests in, responses out, with its quirks.

The monitor reads at most 1024 bytes at a time, every line must fit into that, a body needs a
Content-Length, and after a refusal the connection continues as if nothing had been read. The rest
of a refused request is then read as the next request; clients see that as stale responses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from generated_vmm.testing.bodies import json_bytes

BUFFER_SIZE: Final = 1024
MAX_CONTENT_LENGTH: Final = 2**32 - 1
SERVER_FULL: Final = (
    b"HTTP/1.1 503 \r\nServer: Firecracker API\r\nConnection: close\r\n"
    b'Content-Length: 40\r\n\r\n{ "error": "Too many open connections" }'
)


class HttpRefusal(Exception):
    """A request that the HTTP layer refuses with a 400 of its own."""

    def encode(self) -> bytes:
        """The response; its body contains a raw line feed and so is not strict JSON."""
        lost = "All previous unanswered requests will be dropped."
        return Answer(400, f'{{ "error": "{self}\n{lost}" }}'.encode()).encode()


@dataclass(frozen=True)
class Request:
    """One request as the API thread gets it; `body` is None without a positive Content-Length."""

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
    """A status with its JSON; `exit_code` ends the simulated process once the response is sent."""

    status: int
    body: bytes | None = None
    deprecated: bool = False
    exit_code: int | None = None
    fault: str = ""
    note: str = ""

    @classmethod
    def refusing(cls, fault: str, status: int = 400) -> Answer:
        """A refusal by the monitor's logic."""
        return cls(status, json_bytes({"fault_message": fault}), fault=fault)

    def encode(self) -> bytes:
        """The bytes of the response: no reason phrase, no Date, no length without a body."""
        lines = [f"HTTP/1.1 {self.status} ", "Server: Firecracker API", "Connection: keep-alive"]
        lines += ["Deprecation: true"] * self.deprecated
        lines += [f"Note: {self.note}"] if self.note else []
        if self.body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(self.body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + (self.body or b"")


class RequestParser:
    """Parses the bytes of one connection into requests, with reads of at most `room` bytes."""

    def __init__(self, *, payload_limit: int) -> None:
        self._payload_limit = payload_limit
        self._step = self._request_line
        self._carry = b""
        self._head = ("", "")
        self._content_length = 0
        self._body = bytearray()
        self._arrived: list[Request] = []

    @property
    def room(self) -> int:
        """The maximum size of the next read in bytes."""
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

    def _line(self, window: bytes, start: int, refusal: str) -> bytes | None:
        end = window.find(b"\r\n", start)
        if end >= 0:
            return window[start:end]
        if start == 0 and len(window) == BUFFER_SIZE:
            raise HttpRefusal(refusal)
        self._carry = window[start:]
        return None

    def _request_line(self, window: bytes, start: int) -> int | None:
        line = self._line(window, start, "Invalid request.")
        if line is None:
            return None
        self._head = _parse_request_line(line)
        self._content_length = 0
        self._step = self._header_line
        return start + len(line) + 2

    def _header_line(self, window: bytes, start: int) -> int | None:
        shown = window.decode(errors="replace")
        refusal = f"Invalid header. Reason: Invalid content length. Header: {shown}"
        line = self._line(window, start, refusal)
        if line is None:
            return None
        if line:
            self._take_header(line.decode(errors="replace"))
        else:
            self._end_headers()
        return start + len(line) + 2

    def _take_header(self, line: str) -> None:
        key, colon, value = line.partition(":")
        if not colon:
            raise HttpRefusal(
                f"Invalid header. Reason: Header is incorrectly formatted. Key: {key}"
            )
        if key.strip().lower() == "content-length":
            digits = value.strip().removeprefix("+")
            if not re.fullmatch("[0-9]+", digits) or int(digits) > MAX_CONTENT_LENGTH:
                raise HttpRefusal(
                    f"Invalid header. Reason: Invalid value. Key:{key}; Value:{value}"
                )
            self._content_length = int(digits)

    def _end_headers(self) -> None:
        length = self._content_length
        if length > self._payload_limit:
            raise HttpRefusal(
                f"Request payload with size {length} is larger than the limit of "
                f"{self._payload_limit} allowed by server."
            )
        if length:
            self._step = self._body_part
        else:
            self._complete(None)

    def _body_part(self, window: bytes, start: int) -> int | None:
        missing = self._content_length - len(self._body)
        part = window[start : start + missing]
        self._body += part
        if len(part) < missing:
            self._carry = b""
            return None
        self._complete(bytes(self._body))
        self._body.clear()
        return start + len(part)

    def _complete(self, body: bytes | None) -> None:
        self._arrived.append(Request(*self._head, body))
        self._step = self._request_line


def _parse_request_line(line: bytes) -> tuple[str, str]:
    method, _, rest = line.decode(errors="replace").partition(" ")
    target, _, version = rest.partition(" ")
    if not version:
        raise HttpRefusal("Invalid request.")
    if method not in ("GET", "PUT", "PATCH", "DELETE"):
        raise HttpRefusal("Invalid HTTP Method: Unsupported HTTP method.")
    if not target:
        raise HttpRefusal("Invalid URI: Empty URI not allowed.")
    if version not in ("HTTP/1.0", "HTTP/1.1"):
        raise HttpRefusal("Invalid HTTP Version: Unsupported HTTP version.")
    return method, target
