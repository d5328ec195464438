"""What every way to the monitor shares: operations to bytes, limits, when to keep a connection."""

from __future__ import annotations

import math
import re
import time
from functools import lru_cache
from threading import TIMEOUT_MAX
from typing import Protocol

from generated_vmm.operation import Operation

DEFAULT_MAX_ANSWER_BYTES = 1_048_576
RECEIVE_BYTES = 65_536
FAULT = b'{"fault_message"'
PATH = re.compile(r"/[!-~]*")  # what a request line can hold, RFC 9112 3.2


class HttpAnswer(Protocol):
    """An answer of the monitor, its body read."""

    @property
    def status_code(self) -> int:
        """The status."""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Names in lower case, and values."""

    @property
    def content(self) -> bytes:
        """The whole body."""


def require_seconds(timeout: object) -> None:
    """ValueError unless the value is a number of seconds that can be waited."""
    if not isinstance(timeout, int | float) or not 0 < timeout <= TIMEOUT_MAX:
        raise ValueError(f"timeout is {timeout!r}; it must be a number of seconds, more than 0")


def deadline_after(seconds: float | None) -> float:
    """The `time.monotonic()` at which a call that starts now must have ended."""
    return math.inf if seconds is None else time.monotonic() + seconds


def request_bytes(operation: Operation[object]) -> bytes:
    """The operation as HTTP/1.1 writes it, body included."""
    head = _request_head(operation.method, operation.path)
    body = operation.body
    if not body:
        return head + b"\r\n"
    return b"%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        head,
        len(body),
        body,
    )


def require_path(path: str) -> None:
    """ValueError for a path that no request line can hold."""
    if PATH.fullmatch(path) is None:
        raise ValueError(f"the operation's path {path!r} is none that can be asked for")


@lru_cache(maxsize=256)
def _request_head(method: str, path: str) -> bytes:
    """The first lines of a request; ValueError as `require_path`."""
    require_path(path)
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n".encode("ascii")


def may_be_kept(answer: HttpAnswer) -> bool:
    """Whether the connection is in step with us after this answer, as far as its status tells.

    The monitor's HTTP layer reads the rest of a request it refused as the next request, so only
    a success or a fault of the monitor itself (`fault_message`) leaves the connection usable.
    """
    return answer.status_code < 300 or answer.content.startswith(FAULT)
