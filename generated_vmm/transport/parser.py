"""Reading one HTTP answer from bytes as they arrive."""

from __future__ import annotations

import httptools
import httpx


class AnswerParser:
    """Collects one final answer; interim (1xx) answers before it are skipped.

    `status_code`, `headers`, `content` and `reusable` hold once `feed` or `end` returned true.
    Both raise httpx's errors for bytes that are no answer.
    """

    __slots__ = (
        "_body",
        "_complete",
        "_limit",
        "_parser",
        "_received",
        "headers",
        "reusable",
        "status_code",
    )

    def __init__(self, max_bytes: int) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._limit = max_bytes
        self._received = 0
        self._body: list[bytes] = []
        self._complete = False
        self.headers: list[tuple[bytes, bytes]] = []
        self.status_code = 0
        self.reusable = False

    @property
    def content(self) -> bytes:
        """The body of the answer, decoded from chunks when it came in chunks."""
        return b"".join(self._body)

    def feed(self, received: bytes) -> bool:
        """Takes the next bytes; true once the answer is whole."""
        self._received += len(received)
        if self._received > self._limit:
            raise httpx.RemoteProtocolError(f"the answer is larger than {self._limit} bytes")
        try:
            self._parser.feed_data(received)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._complete:
                raise httpx.RemoteProtocolError(f"the answer is no HTTP: {error}") from error
            self.reusable = False  # bytes behind the answer: the connection is out of step
        if self._complete:
            del self._parser  # it refers back to us: freed now, not by the garbage collector
        return self._complete

    def end(self) -> bool:
        """Takes the end of the stream; true when it is what ends the answer."""
        if not self._received:
            raise httpx.ReadError("the monitor closed the connection without an answer")
        if self.status_code < 200 or self._has_length():
            raise httpx.RemoteProtocolError(f"the answer is cut after {self._received} bytes")
        self.reusable = False
        return True

    def _has_length(self) -> bool:
        names = {name.lower() for name, _ in self.headers}
        return not names.isdisjoint({b"content-length", b"transfer-encoding"})

    # What httptools calls while it reads.

    def on_message_begin(self) -> None:
        """Starts the answer, or the one after an interim answer."""
        if self._complete:
            raise httpx.RemoteProtocolError("bytes behind the answer")
        self.headers.clear()
        self._body.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line."""
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The status line and all headers are known."""
        self.status_code = self._parser.get_status_code()
        self.reusable = self._parser.should_keep_alive()

    def on_body(self, part: bytes) -> None:
        """The next part of the body."""
        self._body.append(part)

    def on_message_complete(self) -> None:
        """The answer, or an interim one, is whole."""
        self._complete = self.status_code >= 200
