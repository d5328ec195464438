# Derived from `generated_vmm/transport/_async/httpx.py` by `make codegen`. Do not edit.
"""A channel over a caller's httpx transport, and our own transport for httpx clients."""

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
    """Sends operations through the caller's transport.

    The transport limits the time of each step. This class limits the time of the whole call, which
    it checks between the parts of a response. Errors of the transport become `CallFailed`.
    """

    def __init__(self, transport: HttpxTransport, max_answer_bytes: int) -> None:
        self._transport = transport
        self._max_answer_bytes = max_answer_bytes
        self._closed = False

    def exchange(self, operation: Operation[object], seconds: float | None) -> ReadAnswer:
        """The response to the operation; see `UnixChannel.exchange`."""
        if self._closed:
            raise closed()
        require_path(operation.path)  # ValueError, as with our own sockets
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
        """Closes the transport; later calls fail."""
        self._closed = True
        with failures_of_a_transport():
            self._transport.close()


class UnixTransport(httpx.BaseTransport):
    """Sends requests to a unix socket as `VmmClient` does; raises httpx's transport errors.

    The request's `read` timeout, in seconds, limits the whole call, waiting for other calls
    included. `max_answer_bytes` limits a response with its headers.
    """

    def __init__(
        self,
        socket_path: str | os.PathLike[str],
        *,
        max_answer_bytes: int = DEFAULT_MAX_ANSWER_BYTES,
    ) -> None:
        self._channel = UnixChannel(os.fspath(socket_path), max_answer_bytes)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The response to the request, with its body."""
        content = bytes_of(request, request.read())
        with failures_as_httpx_has_them():
            return response_from(self._channel.converse(content, seconds_for(request)))

    def close(self) -> None:
        """Closes the connection once the current call has ended; later calls fail."""
        self._channel.close()
