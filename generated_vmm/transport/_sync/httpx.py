# Derived from `generated_vmm/transport/_async/httpx.py` by `make codegen`. Do not edit.
"""A channel over a caller's httpx transport."""

from __future__ import annotations

from typing import Any

from generated_vmm.concurrency._sync import time_limit
from generated_vmm.operation import Operation
from generated_vmm.transport._sync.channels import HttpxTransport
from generated_vmm.transport.calls import closed, deadline_after
from generated_vmm.transport.http import may_be_kept, require_path
from generated_vmm.transport.httpx_values import (
    ReadAnswer,
    answer_of,
    failures_of_a_transport,
    request_for,
    require_in_bounds,
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
        content, deadline = b"", deadline_after(seconds)
        with failures_of_a_transport():
            request = request_for(self._transport, operation, seconds)
            with time_limit(seconds):
                response = self._transport.handle_request(request)
                stream = response.extensions.get("network_stream")
                is_raw = stream is not None and not response.is_closed
                # iter_bytes would close the response: the pool gives its connection to a next call
                parts: Any = response.stream if is_raw else response.iter_bytes()
                try:
                    for part in parts:
                        content += part
                        require_in_bounds(content, self._max_answer_bytes, deadline)
                    answer = answer_of(response, content)
                    if stream is not None and not may_be_kept(answer):
                        stream.close()  # before the pool has it again
                    return answer
                finally:
                    response.close()

    def close(self) -> None:
        """Closes the transport; later calls fail."""
        self._closed = True
        with failures_of_a_transport():
            self._transport.close()
