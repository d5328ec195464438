# Derived from `generated_vmm/transport/_async/httpx.py` by `make codegen`. Do not edit.
"""httpx's transports: one that was given as the way to a monitor, and ours for others to wrap."""

from __future__ import annotations

import os

import httpx

from generated_vmm.concurrency._sync import time_limit
from generated_vmm.operation import Operation
from generated_vmm.transport._sync.channels import HttpxTransport
from generated_vmm.transport._sync.unix import UnixChannel
from generated_vmm.transport.calls import closed, deadline_after
from generated_vmm.transport.http import DEFAULT_MAX_ANSWER_BYTES, require_path
from generated_vmm.transport.httpx_values import (
    Body,
    ReadAnswer,
    bytes_of,
    failures_as_httpx_has_them,
    failures_of_a_transport,
    request_for,
    response_from,
    seconds_for,
)


class HttpxChannel:
    """Sends operations through a transport that the caller gave.

    How long one step may take is the transport's to keep; between the parts of an answer the time
    of the whole call is kept here. Whatever the transport raises becomes a `CallFailed`.
    """

    def __init__(self, transport: HttpxTransport, max_answer_bytes: int) -> None:
        self._transport = transport
        self._max_answer_bytes = max_answer_bytes
        self._closed = False

    def exchange(self, operation: Operation[object], seconds: float | None) -> ReadAnswer:
        """The answer to the operation; see `UnixChannel.exchange`."""
        if self._closed:
            raise closed()
        require_path(operation.path)  # ValueError as for a socket of ours
        body = Body(self._max_answer_bytes, deadline_after(seconds))
        with failures_of_a_transport():
            request = request_for(self._transport, operation, seconds)
            with time_limit(seconds):
                response = self._transport.handle_request(request)
                try:
                    for part in response.iter_bytes():
                        body.add(part)
                finally:
                    response.close()
                return body.of(response)

    def close(self) -> None:
        """Closes the transport; later calls are refused."""
        self._closed = True
        with failures_of_a_transport():
            self._transport.close()


class UnixTransport(httpx.BaseTransport):
    """Sends requests to a unix socket as `VmmClient` does; raises httpx's transport errors.

    The request's `read` timeout limits the whole call, in seconds, waiting for other calls
    included. `max_answer_bytes` limits an answer with its headers.
    """

    def __init__(
        self,
        socket_path: str | os.PathLike[str],
        *,
        max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES,
    ) -> None:
        self._channel = UnixChannel(os.fspath(socket_path), max_answer_bytes)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer to the request, its body read."""
        content = bytes_of(request, request.read())
        with failures_as_httpx_has_them():
            return response_from(self._channel.converse(content, seconds_for(request)))

    def close(self) -> None:
        """Closes the connection; a call that uses it ends first, later calls are refused."""
        self._channel.close()
