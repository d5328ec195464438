"""The transport of the sync client: httpx requests over one kept unix-socket connection."""

from __future__ import annotations

import os
import threading
from types import TracebackType

import httpx

from generated_vmm.transport.connection import Connection
from generated_vmm.transport.parser import AnswerParser
from generated_vmm.transport.wire import (
    DEFAULT_MAX_ANSWER_BYTES,
    allowed_seconds,
    deadline_after,
    may_be_kept,
    request_bytes,
    response_from,
)


class UnixTransport(httpx.BaseTransport):
    """Sends requests to a unix socket, one at a time, over a connection that is kept open.

    The request's `read` timeout limits the whole call, in seconds, waiting for other threads
    included. A request is sent at most once. Raises httpx's transport errors. `max_answer_bytes`
    limits an answer with its headers. Safe to share between threads.
    """

    def __init__(
        self,
        socket_path: str | os.PathLike[str],
        *,
        max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES,
    ) -> None:
        self._path = os.fspath(socket_path)
        self._max_answer_bytes = max_answer_bytes
        self._turn = threading.Lock()
        self._kept: Connection | None = None
        self._closed = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer to the request, its body read."""
        seconds = allowed_seconds(request)
        deadline = deadline_after(seconds)
        if not self._turn.acquire(timeout=-1 if seconds is None else seconds):
            raise httpx.PoolTimeout("another call held the connection")
        try:
            return self._exchange(request_bytes(request), deadline)
        finally:
            self._turn.release()

    def _exchange(self, request: bytes, deadline: float) -> httpx.Response:
        connection = self._take() or Connection(self._path, deadline)
        keep = False
        try:
            connection.send(request, deadline)
            answer = AnswerParser(self._max_answer_bytes)
            while received := connection.receive(deadline):
                if answer.feed(received):
                    break
            else:
                answer.end()
            keep = may_be_kept(answer) and not self._closed
        finally:
            if keep:
                self._kept = connection
            else:
                connection.close()
        return response_from(answer)

    def _take(self) -> Connection | None:
        """The kept connection when it is usable; it is nobody's until it is kept again."""
        if self._closed:
            raise httpx.ConnectError("the client is closed")
        kept, self._kept = self._kept, None
        if kept is None or kept.is_quiet():
            return kept
        kept.close()
        return None

    def close(self) -> None:
        """Closes the connection, after the call that uses it; later calls are refused."""
        self._closed = True
        with self._turn:
            if self._kept is not None:
                self._kept.close()
                self._kept = None

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.close()
