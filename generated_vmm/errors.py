"""What can go wrong with a call to the monitor, one class per way of going wrong.

VmmError
  VmmApiError          the monitor answered, and refused
  VmmConnectionError   no connection, or it ended before the answer came (also a ConnectionError)
  VmmTimeoutError      no whole answer in time (also a TimeoutError)
  VmmProtocolError     the answer is not one that a monitor gives
  VmmRequestTooLarge   the body is over the size limit, nothing was sent (also a ValueError)

Field values that a model refuses raise `pydantic.ValidationError`, ids that the monitor would
refuse raise `ValueError`; both before anything is sent.
"""

from __future__ import annotations

from typing import Self

from generated_vmm.operation import Operation

LONGEST_QUOTE = 500


class VmmError(Exception):
    """Base of every error of a call; `operation` says which call, None outside of one."""

    def __init__(self, message: str, operation: Operation[object] | None = None) -> None:
        super().__init__(message)
        self.operation = operation


class VmmApiError(VmmError):
    """The monitor answered with a status outside 2xx.

    `fault_message` is the monitor's own text: the `fault_message` of its JSON body, else the
    `error` text of its HTTP layer, else the body as text; empty when the body is.
    """

    operation: Operation[object]

    def __init__(self, status_code: int, fault_message: str, operation: Operation[object]) -> None:
        super().__init__(f"{operation}: {status_code} {shorten(fault_message)}".rstrip(), operation)
        self.status_code = status_code
        self.fault_message = fault_message

    def __repr__(self) -> str:
        return f"VmmApiError({self.status_code}, {shorten(self.fault_message)!r}, {self.operation})"

    def __reduce__(self) -> tuple[type[Self], tuple[int, str, Operation[object]]]:
        return type(self), (self.status_code, self.fault_message, self.operation)


class VmmConnectionError(VmmError, ConnectionError):
    """Nobody listens on the socket, or the connection ended before an answer came.

    The message ends in "nothing was sent" when the monitor cannot have seen the call. `permanent`
    says that no later call can do better: the client is closed, or no socket can have the path.
    """

    permanent = False


class VmmTimeoutError(VmmError, TimeoutError):
    """The call took longer than its timeout, waiting for other calls of the client included.

    Unless the message says that nothing was sent, the monitor may still carry the call out.
    """


class VmmProtocolError(VmmError):
    """The answer is cut, too large, no HTTP, or no value of the operation's answer type."""


class VmmRequestTooLarge(VmmError, ValueError):
    """The body is larger than the monitor takes; nothing was sent."""


class VmmDeprecationWarning(DeprecationWarning):
    """The monitor answered `Deprecation: true`: the call used a deprecated field or value."""


def shorten(text: str) -> str:
    """At most 500 characters of the text, on one line, for messages that people read."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_QUOTE else f"{line[:LONGEST_QUOTE]}…"
