"""The ways of a monitor's client: they tell its end from a lost connection, and note its vsock."""

from __future__ import annotations

from generated_vmm.errors import VmmConnectionError
from generated_vmm.operation import Operation
from generated_vmm.process.process import Process, vsock_path_in
from generated_vmm.transport import AsyncUnixChannel, CallFailed, HttpAnswer, UnixChannel

SETS_VSOCK = {"/vsock", "/snapshot/load"}
# A monitor closes its connections some time before it has ended: 35 ms for an empty 128 MiB guest.
LONGEST_END = 0.25  # seconds


class MonitorChannel(UnixChannel):
    """Raises `MonitorExited` for a call that failed because the monitor has ended."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.place.socket_path)
        self._process = process

    def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The answer to the operation within so many seconds."""
        try:
            answer = super().exchange(operation, seconds)
        except CallFailed as failed:
            if _may_be_its_end(failed) and self._process.child.wait(LONGEST_END):
                raise self._process.exited() from failed.__cause__
            raise
        _note(self._process, operation, answer)
        return answer


class AsyncMonitorChannel(AsyncUnixChannel):
    """Raises `MonitorExited` for a call that failed because the monitor has ended."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.place.socket_path)
        self._process = process

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The answer to the operation within so many seconds."""
        try:
            answer = await super().exchange(operation, seconds)
        except CallFailed as failed:
            if _may_be_its_end(failed) and await self._process.child.async_wait(LONGEST_END):
                raise self._process.exited() from failed.__cause__
            raise
        _note(self._process, operation, answer)
        return answer


def _may_be_its_end(failed: CallFailed) -> bool:
    return failed.kind is VmmConnectionError and not failed.permanent


def _note(process: Process, operation: Operation[object], answer: HttpAnswer) -> None:
    if operation.path in SETS_VSOCK and 200 <= answer.status_code < 300:
        path = vsock_path_in(operation.body or b"")
        if path is not None:
            process.note_vsock(path)
