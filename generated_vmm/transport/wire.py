"""What both transports share: httpx's values to and from bytes, when to keep a connection."""

from __future__ import annotations

import math
import time
from threading import TIMEOUT_MAX

import httpx

from generated_vmm.transport.parser import AnswerParser

DEFAULT_MAX_ANSWER_BYTES = 1_048_576
RECEIVE_BYTES = 65_536
FAULT = b'{"fault_message"'


def require_seconds(timeout: object) -> None:
    """ValueError unless the value is a number of seconds that can be waited."""
    if not isinstance(timeout, int | float) or not 0 < timeout <= TIMEOUT_MAX:
        raise ValueError(f"timeout is {timeout!r}; it must be a number of seconds, more than 0")


def allowed_seconds(request: httpx.Request) -> float | None:
    """How long the whole call may take: httpx's `read` timeout, here a total; None for no limit."""
    timeout: dict[str, float | None] = request.extensions.get("timeout", {})
    return timeout.get("read")


def deadline_after(seconds: float | None) -> float:
    """The `time.monotonic()` at which a call that starts now must have ended."""
    return math.inf if seconds is None else time.monotonic() + seconds


def request_bytes(request: httpx.Request) -> bytes:
    """The request as HTTP/1.1 writes it, body included."""
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%b: %b" % header for header in request.headers.raw]
    return b"\r\n".join(lines) + b"\r\n\r\n" + request.read()


def response_from(answer: AnswerParser) -> httpx.Response:
    """The answer as httpx has it."""
    return httpx.Response(
        answer.status_code, headers=answer.headers, stream=httpx.ByteStream(answer.content)
    )


def may_be_kept(answer: AnswerParser) -> bool:
    """Whether the connection is in step with us after this answer.

    The monitor's HTTP layer reads the rest of a request it refused as the next request, so only
    a success or a fault of the monitor itself (`fault_message`) leaves the connection usable.
    """
    return answer.reusable and (answer.status_code < 300 or answer.content.startswith(FAULT))


def body_of(response: httpx.Response) -> bytes:
    """The whole body of a sync transport's answer.

    A shorter way than `response.read()`: nothing asked for a content encoding.
    """
    assert isinstance(response.stream, httpx.SyncByteStream)
    try:
        return b"".join(response.stream)
    finally:
        response.stream.close()


async def async_body_of(response: httpx.Response) -> bytes:
    """The whole body of an async transport's answer."""
    if isinstance(response.stream, httpx.ByteStream):
        return b"".join(response.stream)  # it is here already, as ours always is
    assert isinstance(response.stream, httpx.AsyncByteStream)
    try:
        return b"".join([part async for part in response.stream])
    finally:
        await response.stream.aclose()
