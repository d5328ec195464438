"""What was asked of a monitor, how long it took, and what it answered."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

import httpx

from examples.console.events import person
from examples.console.records import Call, Records
from generated_vmm.transport import AsyncUnixTransport
from generated_vmm.transport.calls import fault_message_in

LONGEST_BODY: Final = 16_384
"""Bytes of a call's body that are written down; what is longer is left out."""
METADATA: Final = "/mmds"


class CallLog:
    """The calls of one monitor."""

    def __init__(self, machine: str, records: Records) -> None:
        self._machine = machine
        self._records = records

    def add(self, call: Call) -> None:
        """Write `call` down."""
        self._records.add_call(self._machine, call)

    def latest(self, count: int) -> list[Call]:
        """At most `count` calls, the newest first."""
        return self._records.calls(self._machine, count)


class RecordedTransport(httpx.AsyncBaseTransport):
    """The way to a monitor, with every call written down."""

    def __init__(self, socket_path: str, log: CallLog) -> None:
        self._transport = AsyncUnixTransport(socket_path)
        self._log = log

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request on and note what became of it."""
        at, began = datetime.now(UTC), time.perf_counter()
        status, fault = None, ""
        await request.aread()
        try:
            response = await self._transport.handle_async_request(request)
            status = response.status_code
            fault = "" if response.is_success else fault_message_in(await response.aread())
            return response
        finally:
            took = (time.perf_counter() - began) * 1000
            call = (request.method, request.url.path, took, status, person().name, fault)
            self._log.add(Call(at, *call, _body_of(request)))

    async def aclose(self) -> None:
        """Close the connection to the monitor."""
        await self._transport.aclose()


def _body_of(request: httpx.Request) -> str:
    """What is written down of a body: metadata may hold secrets of the guest."""
    if request.url.path == METADATA or len(request.content) > LONGEST_BODY:
        return ""
    return request.content.decode(errors="replace")
