"""One call without its I/O: operation to request, answer to value, failure to error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import httpx
from pydantic import ValidationError

from generated_vmm.errors import (
    VmmApiError,
    VmmConnectionError,
    VmmError,
    VmmProtocolError,
    VmmRequestTooLarge,
    VmmTimeoutError,
    shorten,
)
from generated_vmm.operation import Answer, Operation
from generated_vmm.transport.deprecation import warn_of_deprecation
from generated_vmm.transport.faults import fault_message_in
from generated_vmm.transport.wire import require_seconds

DEFAULT_TIMEOUT = 5.0
DEFAULT_MAX_BODY_BYTES = 51_200  # what the monitor takes unless started with another limit
DEPRECATED = (b"deprecation", b"true")
NOT_SENT = "nothing was sent"
MAY_HAVE_ACTED = "the monitor may have carried the call out"


@dataclass(frozen=True, slots=True)
class CallSettings:
    """What the calls of one client have in common.

    `timeout` is for a whole call, in seconds, None for no limit. ValueError for a limit that is
    no limit and for an empty path.
    """

    socket_path: str
    timeout: float | None = DEFAULT_TIMEOUT
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES

    def __post_init__(self) -> None:
        if not self.socket_path:
            raise ValueError("socket_path is empty; it names the monitor's unix socket")
        if self.timeout is not None:
            require_seconds(self.timeout)
        if self.max_body_bytes < 0:
            raise ValueError(f"max_body_bytes is {self.max_body_bytes}; it cannot be negative")

    def request_for(self, operation: Operation[object]) -> httpx.Request:
        """The request that asks for the operation; VmmRequestTooLarge when its body is."""
        headers = [(b"Host", b"localhost")]
        body = operation.body or b""
        if body:
            self._require_small(operation, len(body))
            headers.append((b"Content-Type", b"application/json"))
            headers.append((b"Content-Length", b"%d" % len(body)))
        seconds = self.timeout
        return httpx.Request(
            operation.method,
            _url_of(operation.path),
            headers=headers,
            stream=httpx.ByteStream(body),
            extensions={
                "timeout": {"connect": seconds, "read": seconds, "write": seconds, "pool": seconds}
            },
        )

    def value_of(
        self, operation: Operation[Answer], response: httpx.Response, content: bytes
    ) -> Answer:
        """The value in an answer; VmmApiError for a refusal, VmmProtocolError for nonsense."""
        if DEPRECATED in ((name.lower(), value) for name, value in response.headers.raw):
            warn_of_deprecation(operation)
        if not 200 <= response.status_code < 300:
            raise VmmApiError(response.status_code, fault_message_in(content), operation)
        try:
            return operation.read(content)
        except ValueError as error:
            what = f"the {response.status_code} answer is not what was asked for: {_reason(error)}"
            raise VmmProtocolError(self._message(operation, what), operation) from error

    def failure(self, operation: Operation[object], error: httpx.TransportError) -> VmmError:
        """The error that says what became of a call that got no answer."""
        error_type, what = self._became(error)
        return error_type(self._message(operation, what), operation)

    def _became(self, error: httpx.TransportError) -> tuple[type[VmmError], str]:
        match error:
            case httpx.PoolTimeout() | httpx.ConnectTimeout():
                return VmmTimeoutError, f"{error} within {self.timeout} s; {NOT_SENT}"
            case httpx.TimeoutException():
                return VmmTimeoutError, f"{error} within {self.timeout} s; {MAY_HAVE_ACTED}"
            case httpx.ConnectError():
                return VmmConnectionError, f"no connection: {error}; {NOT_SENT}"
            case httpx.NetworkError():
                return VmmConnectionError, f"connection lost: {error}; {MAY_HAVE_ACTED}"
            case _:
                return VmmProtocolError, f"{error}; {MAY_HAVE_ACTED}"

    def _require_small(self, operation: Operation[object], size: int) -> None:
        if size > self.max_body_bytes:
            what = f"the body has {size} bytes, the limit is {self.max_body_bytes}; {NOT_SENT}"
            raise VmmRequestTooLarge(self._message(operation, what), operation)

    def _message(self, operation: Operation[object], what: str) -> str:
        return f"{operation} on {self.socket_path}: {what}"


@lru_cache(maxsize=256)
def _url_of(path: str) -> httpx.URL:
    return httpx.URL(f"http://localhost{path}")


def _reason(error: ValueError) -> str:
    """What a model found wrong, without the values it found."""
    if not isinstance(error, ValidationError):
        return shorten(str(error))
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return shorten("; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found))
