"""The ways of a monitor's client: they tell its end from a lost connection, and own its vsock."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from generated_vmm.errors import VmmConnectionError
from generated_vmm.facade import AsyncVmmClient, VmmClient
from generated_vmm.operation import Operation
from generated_vmm.process.run import Run, vsock_path_in
from generated_vmm.transport import (
    DEFAULT_TIMEOUT,
    AsyncUnixChannel,
    CallFailed,
    HttpAnswer,
    UnixChannel,
)
from generated_vmm.transport._async.vsock import AsyncVsockConnection
from generated_vmm.transport._sync.vsock import VsockConnection

SETS_VSOCK = {"/vsock", "/snapshot/load"}
# A monitor closes its connections some time before it has ended: 35 ms for an empty 128 MiB guest.
LONGEST_END = 0.25  # seconds


class MonitorChannel(UnixChannel):
    """Raises `MonitorExited` for a call that failed because the monitor has ended."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.workspace.socket_path, connect=run.workspace.connect)
        self._run = run

    def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The answer to the operation within so many seconds."""
        if operation.path in SETS_VSOCK:
            self._run.wait_for(_owns_vsock(self._run, operation))
        try:
            return super().exchange(operation, seconds)
        except CallFailed as failed:
            if _may_be_its_end(failed):
                with contextlib.suppress(TimeoutError):
                    self._run.wait_for(self._run.is_over, LONGEST_END)
                    raise self._run.exited() from failed.__cause__
            raise


class AsyncMonitorChannel(AsyncUnixChannel):
    """Raises `MonitorExited` for a call that failed because the monitor has ended."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.workspace.socket_path, connect=run.workspace.connect)
        self._run = run

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The answer to the operation within so many seconds."""
        if operation.path in SETS_VSOCK:
            await self._run.async_wait_for(_owns_vsock(self._run, operation))
        try:
            return await super().exchange(operation, seconds)
        except CallFailed as failed:
            if _may_be_its_end(failed):
                with contextlib.suppress(TimeoutError):
                    await self._run.async_wait_for(self._run.is_over, LONGEST_END)
                    raise self._run.exited() from failed.__cause__
            raise


class MonitorClient(VmmClient):
    """The client of a monitor that this process owns: it knows where its sockets are."""

    def __init__(self, run: Run) -> None:
        workspace = run.workspace
        super().__init__(
            workspace.socket_path,
            max_body_bytes=workspace.settings.max_body_bytes,
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
        """See `VmmClient.connect_vsock`; without `uds_path` a jail's socket is found too."""
        if uds_path is not None:
            return super().connect_vsock(port, uds_path=uds_path, timeout=timeout)
        with _vsock_of(self._run, self._run.vsock_path or self._vsock_path()) as path:
            return super().connect_vsock(port, uds_path=path, timeout=timeout)


class AsyncMonitorClient(AsyncVmmClient):
    """The client of a monitor that this process owns: it knows where its sockets are."""

    def __init__(self, run: Run) -> None:
        workspace = run.workspace
        super().__init__(
            workspace.socket_path,
            max_body_bytes=workspace.settings.max_body_bytes,
            transport=AsyncMonitorChannel(run),
        )
        self._run = run

    async def connect_vsock(
        self,
        port: int,
        *,
        uds_path: str | os.PathLike[str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,  # noqa: ASYNC109  # as the sync one
    ) -> AsyncVsockConnection:
        """See `AsyncVmmClient.connect_vsock`; without `uds_path` a jail's socket is found too."""
        if uds_path is not None:
            return await super().connect_vsock(port, uds_path=uds_path, timeout=timeout)
        with _vsock_of(self._run, self._run.vsock_path or await self._vsock_path()) as path:
            return await super().connect_vsock(port, uds_path=path, timeout=timeout)


def _may_be_its_end(failed: CallFailed) -> bool:
    return failed.kind is VmmConnectionError and not failed.permanent


def _owns_vsock(run: Run, operation: Operation[object]) -> Callable[[], bool]:
    """Lets the socket that this call makes go with the monitor, whatever becomes of the call."""
    path = vsock_path_in(operation.body or b"")
    if path is not None:
        run.vsock_path = path
        thing = run.workspace.vsock_made_at(path)
        if thing is not None:
            return run.own(thing)
    return lambda: True


@contextlib.contextmanager
def _vsock_of(run: Run, path: str) -> Iterator[str]:
    """A path of the vsock device's socket that nobody can lead elsewhere."""
    try:
        found = run.workspace.open_socket(path)
    except OSError as error:
        raise VmmConnectionError(f"the vsock device's socket {path}: {error}") from error
    try:
        yield f"/proc/self/fd/{found}"
    finally:
        os.close(found)
