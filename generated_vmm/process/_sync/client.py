# Derived from `generated_vmm/process/_async/client.py` by `make codegen`. Do not edit.
"""The client of a monitor that this process owns: its errors say when the monitor has ended."""

from __future__ import annotations

import contextlib
import os

from generated_vmm.errors import VmmConnectionError
from generated_vmm.facade import VmmClient
from generated_vmm.operation import Operation
from generated_vmm.process._sync.waiting import wait_for
from generated_vmm.process.run import Run
from generated_vmm.transport import DEFAULT_TIMEOUT, CallFailed, HttpAnswer, UnixChannel
from generated_vmm.transport._sync.vsock import VsockConnection

# A monitor closes its connections some time before it ends: 35 ms for an empty 128 MiB guest.
LONGEST_END = 0.25  # seconds


class MonitorChannel(UnixChannel):
    """Raises `MonitorExited` if a call failed because the monitor has ended."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.workspace.socket_path, connect=run.workspace.connect)
        self._run = run

    def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The response to the operation within `timeout` seconds."""
        if is_prepared := self._run.own_vsock(operation):
            wait_for(self._run, is_prepared)
        try:
            return super().exchange(operation, seconds)
        except CallFailed as failed:
            if failed.kind is VmmConnectionError and not failed.permanent:
                with contextlib.suppress(TimeoutError):
                    wait_for(self._run, self._run.is_over, LONGEST_END)
                    raise self._run.exited() from failed.__cause__
            raise


class MonitorClient(VmmClient):
    """The client of a monitor that this process owns; it knows the paths of the sockets."""

    def __init__(self, run: Run) -> None:
        super().__init__(
            run.workspace.socket_path,
            max_body_bytes=run.workspace.settings.max_body_bytes,
            transport=MonitorChannel(run),
        )
        self._run = run

    def connect_vsock(
        self,
        port: int,
        *,
        uds_path: str | os.PathLike[str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> VsockConnection:
        """See `VmmClient.connect_vsock`; also finds a jailed monitor's socket by itself."""
        if uds_path is not None:
            return super().connect_vsock(port, uds_path=uds_path, timeout=timeout)
        with self._run.opened_vsock(self._run.vsock_path or self._vsock_path()) as path:
            return super().connect_vsock(port, uds_path=path, timeout=timeout)
