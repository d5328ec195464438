"""One call without its I/O: answer to value, failure to error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from generated_vmm.transport.deprecation import is_deprecated, warn_of_deprecation
from generated_vmm.transport.failure import CallFailed
from generated_vmm.transport.faults import fault_message_in
from generated_vmm.transport.wire import HttpAnswer, require_seconds

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

DEFAULT_TIMEOUT = 5.0
DEFAULT_MAX_BODY_BYTES = 51_200  # what the monitor takes unless started with another limit
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

    def require_small(self, operation: Operation[object]) -> None:
        """VmmRequestTooLarge when the operation's body is."""
        size = len(operation.body or b"")
        if size > self.max_body_bytes:
            what = f"the body has {size} bytes, the limit is {self.max_body_bytes}; {NOT_SENT}"
            raise VmmRequestTooLarge(self._message(operation, what), operation)

    def value_of(self, operation: Operation[Answer], answer: HttpAnswer) -> Answer:
        """The value in an answer; VmmApiError for a refusal, VmmProtocolError for nonsense."""
        if is_deprecated(answer):
            warn_of_deprecation(operation)
        if not 200 <= answer.status_code < 300:
            raise VmmApiError(answer.status_code, fault_message_in(answer.content), operation)
        try:
            return operation.read(answer.content)
        except ValueError as error:
            what = f"the {answer.status_code} answer {_fault_of(error)}; {MAY_HAVE_ACTED}"
            raise VmmProtocolError(self._message(operation, what), operation) from error

    def error_of(self, operation: Operation[object], failed: CallFailed) -> VmmError:
        """The error that says what became of a call that got no answer."""
        what = failed.reason
        if failed.kind is VmmTimeoutError:
            what = f"{what} within {self.timeout} s"
        elif failed.kind is VmmConnectionError:
            what = f"{'connection lost' if failed.sent else 'no connection'}: {what}"
        known = MAY_HAVE_ACTED if failed.sent else NOT_SENT
        error = failed.kind(self._message(operation, f"{what}; {known}"), operation)
        if isinstance(error, VmmConnectionError):
            error.permanent = failed.permanent
        return error

    def error_at_close(self, failed: CallFailed) -> VmmError:
        """The error that says why the way to the monitor was not closed as it should be."""
        return failed.kind(f"closing the way to {self.socket_path}: {failed.reason}")

    def _message(self, operation: Operation[object], what: str) -> str:
        return f"{operation} on {self.socket_path}: {what}"


def _fault_of(error: ValueError) -> str:
    """What a model found wrong with an answer, without the values it found."""
    if not isinstance(error, ValidationError):
        return f"is not what was asked for: {shorten(str(error))}"
    found = error.errors(include_url=False, include_input=False, include_context=False)
    if any(each["type"] == "json_invalid" for each in found):
        return "is not JSON"
    faults = (": ".join(filter(None, (_place_of(each), each["msg"]))) for each in found)
    return shorten(f"is not what was asked for: {'; '.join(faults)}")


def _place_of(fault: ErrorDetails) -> str:
    return ".".join(map(str, fault["loc"]))
