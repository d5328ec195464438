"""The client of a monitor that this process owns: its errors say when the monitor has ended."""

from __future__ import annotations

import contextlib
import os

from generated_vmm.errors import VmmConnectionError
from generated_vmm.facade import AsyncVmmClient
from generated_vmm.operation import Operation
from generated_vmm.process._async.waiting import wait_for
from generated_vmm.process.run import Run
from generated_vmm.transport import DEFAULT_TIMEOUT, AsyncUnixChannel, CallFailed, HttpAnswer
from generated_vmm.transport._async.vsock import AsyncVsockConnection

# A monitor closes its connections some time before it ends: 35 ms for an empty 128 MiB guest.
LONGEST_END = 0.25  # seconds


class AsyncMonitorChannel(AsyncUnixChannel):
    """Raises `MonitorExited` if a call failed because the monitor has ended."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.workspace.socket_path, connect=run.workspace.connect)
        self._run = run

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The response to the operation within `timeout` seconds."""
        if is_prepared := self._run.own_vsock(operation):
            await wait_for(self._run, is_prepared)
        try:
            return await super().exchange(operation, seconds)
        except CallFailed as failed:
            if failed.kind is VmmConnectionError and not failed.permanent:
                with contextlib.suppress(TimeoutError):
                    await wait_for(self._run, self._run.is_over, LONGEST_END)
                    raise self._run.exited() from failed.__cause__
            raise


class AsyncMonitorClient(AsyncVmmClient):
    """The client of a monitor that this process owns; it knows the paths of the sockets."""

    def __init__(self, run: Run) -> None:
        super().__init__(
            run.workspace.socket_path,
            max_body_bytes=run.workspace.settings.max_body_bytes,
            transport=AsyncMonitorChannel(run),
        )
        self._run = run

    async def connect_vsock(
        self,
        port: int,
        *,
        uds_path: str | os.PathLike[str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> AsyncVsockConnection:
        """See `AsyncVmmClient.connect_vsock`; also finds a jailed monitor's socket by itself."""
        if uds_path is not None:
            return await super().connect_vsock(port, uds_path=uds_path, timeout=timeout)
        with self._run.opened_vsock(self._run.vsock_path or await self._vsock_path()) as path:
            return await super().connect_vsock(port, uds_path=path, timeout=timeout)
