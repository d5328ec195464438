"""Converts requests to those of httpx, and its responses and errors to ours."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

import httpx

from generated_vmm.errors import VmmError
from generated_vmm.operation import Operation
from generated_vmm.transport.calls import (
    CallFailed,
    late,
    lost,
    unreachable,
    unreadable,
)

LIBRARIES = ("httpx", "httpx2")


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """A response of the monitor, with its body."""

    status_code: int
    headers: list[tuple[bytes, bytes]]
    content: bytes


def require_in_bounds(content: bytes, most: int, deadline: float) -> None:
    """Raises `CallFailed` if the body so far is too large, or too late."""
    if len(content) > most:
        raise unreadable(f"the response is larger than {most} bytes")
    if time.monotonic() >= deadline:
        raise late("the response did not come", sent=True)


def answer_of(response: httpx.Response, content: bytes) -> ReadAnswer:
    """The response with its body."""
    headers = [(name.lower(), value) for name, value in response.headers.raw]
    return ReadAnswer(response.status_code, headers, content)


def request_for(
    transport: object, operation: Operation[object], seconds: float | None
) -> httpx.Request:
    """The operation as a request of the transport's own library."""
    headers = {"Content-Type": "application/json"} if operation.body else {}
    timeout = {"connect": seconds, "read": seconds, "write": seconds, "pool": seconds}
    request: type[httpx.Request] = library_of(transport).Request
    return request(
        operation.method,
        f"http://localhost{operation.path}",
        headers=headers,
        content=operation.body or None,
        extensions={"timeout": timeout},
    )


def library_of(transport: object) -> ModuleType:
    """httpx2 for one of its transports, else httpx; both have the same names."""
    roots = {kind.__module__.partition(".")[0] for kind in type(transport).__mro__}
    return sys.modules["httpx2"] if "httpx2" in roots else httpx


@contextmanager
def failures_of_a_transport() -> Iterator[None]:
    """Turns errors that a transport raises in this block into `CallFailed`, with their cause."""
    try:
        yield
    except (CallFailed, VmmError):  # the second by a transport that is made for our clients
        raise
    except Exception as error:
        raise failure_of(error) from error


def failure_of(error: Exception) -> CallFailed:
    """The failure for an error of a transport, which may be of any library."""
    kinds = type(error).__mro__
    names = {kind.__name__ for kind in kinds if kind.__module__.partition(".")[0] in LIBRARIES}
    if names & {"PoolTimeout", "ConnectTimeout"}:
        return late(error, sent=False)
    if "TimeoutException" in names:
        return late(error, sent=True)
    if isinstance(error, TimeoutError):
        return late("the response did not come", sent=True)
    if "ConnectError" in names:
        return unreachable(error)
    if names & {"NetworkError", "ProxyError"} or isinstance(error, OSError):
        return lost(error)
    if "TransportError" in names:
        return unreadable(error)
    return unreadable(f"the transport raised {type(error).__name__}: {error}")
