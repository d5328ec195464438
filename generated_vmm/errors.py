"""The errors of a call to the monitor.

VmmError
  VmmApiError          the monitor refused the call
  VmmConnectionError   no connection, or it ended before the response (also a ConnectionError)
  VmmTimeoutError      no complete response in time (also a TimeoutError)
  VmmProtocolError     the response is not one of a monitor
  VmmRequestTooLarge   the body exceeds the size limit, nothing was sent (also a ValueError)

Invalid field values raise `pydantic.ValidationError`, invalid ids raise `ValueError`; both before
anything is sent.
"""

from __future__ import annotations

from typing import Self

from generated_vmm.operation import Operation

LONGEST_QUOTE = 500


class VmmError(Exception):
    """Base of every error of a call; `operation` names the call, None outside of one."""

    def __init__(self, message: str, operation: Operation[object] | None = None) -> None:
        super().__init__(message)
        self.operation = operation


class VmmApiError(VmmError):
    """The monitor returned a status outside 2xx.

    `fault_message` is the monitor's own text: the `fault_message` of its JSON body, else the
    `error` text of its HTTP layer, else the body as text; empty if the body is empty.
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
    """No process listens on the socket, or the connection ended before the response.

    The message ends in "nothing was sent" if the monitor cannot have received the call. If
    `permanent`, later calls will fail too: the client is closed, or the machine was started without
    a vsock device.
    """

    permanent = False


class VmmTimeoutError(VmmError, TimeoutError):
    """The call took longer than its timeout, waiting for other calls of the client included.

    The monitor may still carry out the call, unless the message says that nothing was sent.
    """


class VmmProtocolError(VmmError):
    """The response is cut off, too large, not HTTP, or not of the operation's response type."""


class VmmRequestTooLarge(VmmError, ValueError):
    """The body is larger than the monitor accepts; nothing was sent."""


class VmmDeprecationWarning(DeprecationWarning):
    """The monitor returned `Deprecation: true`: the call used a deprecated field or value."""


def shorten(text: str) -> str:
    """At most 500 characters of the text, on one line, for messages."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_QUOTE else f"{line[:LONGEST_QUOTE]}…"
