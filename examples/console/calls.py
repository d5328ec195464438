"""What was asked of a monitor, how long it took, and what it answered."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

import httpx

from examples.console.events import person
from generated_vmm.transport import AsyncUnixTransport
from generated_vmm.transport.calls import fault_message_in

KEPT_CALLS = 200


@dataclass(frozen=True, slots=True)
class Call:
    """One call, made for `caller`; `status` is None when no answer came."""

    at: datetime
    method: str
    path: str
    milliseconds: float
    status: int | None
    caller: str
    fault: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the monitor did what it was asked."""
        return self.status is not None and self.status < 300


class CallLog:
    """The last calls of one monitor, newest first."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque(maxlen=KEPT_CALLS)

    def add(self, call: Call) -> None:
        """Keep `call`; the oldest makes room."""
        self._calls.appendleft(call)

    def latest(self, count: int) -> list[Call]:
        """At most `count` calls, the newest first."""
        return list(islice(self._calls, count))


class RecordedTransport(httpx.AsyncBaseTransport):
    """The way to a monitor, with every call written down."""

    def __init__(self, socket_path: str, log: CallLog) -> None:
        self._transport = AsyncUnixTransport(socket_path)
        self._log = log

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request on and note what became of it."""
        at, began = datetime.now(UTC), time.perf_counter()
        status, fault = None, ""
        try:
            response = await self._transport.handle_async_request(request)
            status = response.status_code
            fault = "" if response.is_success else fault_message_in(await response.aread())
            return response
        finally:
            took = (time.perf_counter() - began) * 1000
            path = request.url.path
            self._log.add(Call(at, request.method, path, took, status, person().name, fault))

    async def aclose(self) -> None:
        """Close the connection to the monitor."""
        await self._transport.aclose()
