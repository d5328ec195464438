"""HTTP as the monitor speaks it: operations to bytes, bytes to responses, and their limits."""

from __future__ import annotations

import re
import sys
from functools import lru_cache

import httptools

from generated_vmm.operation import Operation
from generated_vmm.transport.calls import lost, unreadable

DEFAULT_MAX_ANSWER_BYTES = 1_048_576
RECEIVE_BYTES = 65_536
LENGTHS = {b"content-length", b"transfer-encoding"}
PATH = re.compile(r"/[!-~]*")  # the characters of a request line, RFC 9112 3.2


def request_bytes(operation: Operation[object]) -> bytes:
    """The operation as an HTTP/1.1 request, body included."""
    head = _request_head(operation.method, operation.path)
    body = operation.body
    if not body:
        return head + b"\r\n"
    about = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return head + about + body


def require_path(path: str) -> None:
    """Raises ValueError for a path that no request line can contain."""
    if PATH.fullmatch(path) is None:
        raise ValueError(f"the operation's path {path!r} has characters that no URL can have")


@lru_cache(maxsize=256)
def _request_head(method: str, path: str) -> bytes:
    """The first lines of a request; ValueError as `require_path`."""
    require_path(path)
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n".encode("ascii")


class AnswerParser:
    """Collects one final response; interim (1xx) responses before it are skipped.

    `status_code`, `headers` and `content` are valid once `feed` has returned true.
    `feed` raises `CallFailed` for bytes that are no response.
    """

    def __init__(self, max_bytes: int) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._max_bytes = self._limit = max_bytes
        self._received = 0
        self._complete = False
        self._body: list[bytes] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self.status_code = 0

    @property
    def content(self) -> bytes:
        """The body of the response, decoded if it came in chunks."""
        return b"".join(self._body)

    def take(self) -> bytes:
        """The body since the last call; with some, the limit begins anew."""
        if part := self.content:
            self._body.clear()
            self._limit = self._received + self._max_bytes
        return part

    def feed(self, received: bytes) -> bool:
        """Takes the next bytes, none at the end of the stream; true once the response is whole."""
        if not received:
            return self._end()
        handled = sys.exception()
        self._received += len(received)
        if self._received > self._limit:
            raise unreadable(f"the response is larger than {self._limit} bytes")
        try:
            self._parser.feed_data(received)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._complete:
                what = f"the response is not HTTP: {error}"
                raise _of_a_handler(error, handled) or unreadable(what) from error
        if self._complete:
            del self._parser  # it refers back to self: freed now, not by the garbage collector
        return self._complete

    def _end(self) -> bool:
        """True if the end of the stream is the end of the response."""
        if not self._received:
            raise lost("the monitor closed it without a response")
        if self.status_code < 200 or self._has_length():
            reason = f"the response is cut off after {self._received} bytes"
            raise unreadable(reason) from EOFError(reason)
        return True

    def _has_length(self) -> bool:
        return not LENGTHS.isdisjoint(name for name, _ in self.headers)

    # Callbacks of httptools.

    def on_message_begin(self) -> None:
        """Starts the response, or the one after an interim response."""
        if self._complete:
            raise ValueError("bytes after the response")
        self.headers.clear()
        self._body.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line."""
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The status line and all headers have been read."""
        self.status_code = self._parser.get_status_code()

    def on_body(self, part: bytes) -> None:
        """The next part of the body."""
        self._body.append(part)

    def on_message_complete(self) -> None:
        """The response, or an interim one, is complete."""
        self._complete = self.status_code >= 200


def _of_a_handler(error: Exception, handled: BaseException | None) -> BaseException | None:
    """What a signal handler has raised in a callback; httptools raises an error of its own then."""
    is_told = isinstance(error, httptools.HttpParserCallbackError)
    return error.__context__ if is_told and error.__context__ is not handled else None
