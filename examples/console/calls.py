"""Calls to a monitor, with their durations and responses."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from examples.console.events import person
from examples.console.records import Call
from generated_vmm.operation import Operation
from generated_vmm.transport import AsyncUnixChannel, HttpAnswer
from generated_vmm.transport.calls import fault_message_in

LONGEST_BODY: Final = 16_384
"""The longest body of a call that is recorded, in bytes; longer ones are omitted."""
METADATA: Final = "/mmds"


class RecordedChannel:
    """A transport to a monitor that reports every call to `note`."""

    def __init__(self, channel: AsyncUnixChannel, note: Callable[[Call], None]) -> None:
        self._channel = channel
        self._note = note

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """Pass the call on, and report its result."""
        at, began = datetime.now(UTC), time.perf_counter()
        status, fault = None, ""
        try:
            answer = await self._channel.exchange(operation, seconds)
            status = answer.status_code
            fault = fault_message_in(answer.content) if status >= 300 else ""
            return answer
        finally:
            took = (time.perf_counter() - began) * 1000
            call = (operation.method, operation.path, took, status, person().name, fault)
            self._note(Call(at, *call, _body_of(operation)))

    async def close(self) -> None:
        """Close the connection to the monitor."""
        await self._channel.close()


def _body_of(operation: Operation[object]) -> str:
    """The recorded form of a body: metadata may contain secrets of the guest."""
    body = operation.body or b""
    if operation.path == METADATA or len(body) > LONGEST_BODY:
        return ""
    return body.decode(errors="replace")
