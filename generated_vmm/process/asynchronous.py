"""The monitor as an async context manager, for the tasks of one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar, Unpack

from generated_vmm.errors import VmmTimeoutError
from generated_vmm.facade import AsyncVmmClient
from generated_vmm.process.broadcast import AsyncRingBuffer, Broadcast, Work
from generated_vmm.process.channels import AsyncMonitorClient
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.lines import LogLine, Metrics
from generated_vmm.process.monitor import MonitorBase
from generated_vmm.process.outlets import LOG_LINES, METRICS_LINES, Outlets
from generated_vmm.process.run import Run
from generated_vmm.process.serial import AsyncSerial
from generated_vmm.process.settings import HostPath, MonitorOptions, Settings
from generated_vmm.process.supervisor import Goal
from generated_vmm.process.unjailed import Unjailed
from generated_vmm.process.workspace import Workspace

Result = TypeVar("Result")


class AsyncMonitor(MonitorBase[AsyncVmmClient]):
    """`Monitor` for the tasks of an event loop: what waits is awaited.

    A cancelled `start` leaves nothing; a cancelled `stop` kills the monitor rather than leave it.
    """

    def __init__(
        self,
        binary: HostPath | Sequence[HostPath] = "firecracker",
        **options: Unpack[MonitorOptions],
    ) -> None:
        self._set_up(Unjailed(binary, Settings(**options)))

    def _set_up(self, workspace: Workspace) -> None:
        self.serial = AsyncSerial(workspace.settings.serial_bytes, workspace.open_console)
        self.log: AsyncRingBuffer[LogLine] = AsyncRingBuffer(LOG_LINES)
        self.metrics: AsyncRingBuffer[Metrics] = AsyncRingBuffer(METRICS_LINES)
        self._run = Run(workspace, Outlets(self.serial, self.log, self.metrics))

    def _connect(self) -> None:
        self._client = AsyncMonitorClient(self._run)

    @classmethod
    async def attach(cls, directory: HostPath) -> Self:
        """Takes up a detached monitor that still runs, from whatever process started it.

        Raises `MonitorExited` when it has ended, `MonitorError` when the folder is none of a
        detached monitor, somebody else's, or when another handle owns the monitor.
        """
        return cls._attached(*await async_finished(cls._finding(directory)))

    async def start(self) -> Self:
        """Starts the monitor and waits until its socket answers.

        Raises `MonitorStartError` when it does not, with the last lines of the log; nothing is
        left of it then. A monitor is started once.
        """
        self._run.require_fresh()
        try:
            await self._carry_out(Goal.RUN)
            self._connect()
            return self
        except BaseException:
            await self._give_up()
            raise

    async def wait(self, timeout: float | None = None) -> int | None:  # noqa: ASYNC109  # as Monitor
        """Waits until the monitor has ended, and returns its `returncode`.

        Raises `VmmTimeoutError` when it has not within `timeout` seconds.
        """
        _ = self.pid
        try:
            await self._run.async_wait_for(self._run.is_over, timeout)
        except TimeoutError:
            raise VmmTimeoutError(f"the monitor has not ended within {timeout} s") from None
        return self.returncode

    async def stop(self, grace: float | None = None) -> int | None:
        """Ends the monitor, removes its files and returns its `returncode`.

        A guest that runs gets Ctrl+Alt+Del and `grace` seconds (those of the options if None),
        then come SIGTERM and SIGKILL. Does nothing more the second time.
        """
        try:
            await self._carry_out(Goal.STOP, self._grace(grace))
        except MonitorError:
            raise
        except BaseException:
            await self._give_up()
            raise
        return await self._closed()

    async def kill(self) -> int | None:
        """Ends the monitor at once with SIGKILL, removes its files, returns its `returncode`."""
        wish = self._run.want(Goal.KILL)
        await until(self._run, wish.is_done)
        wish.require_success()
        return await self._closed()

    async def detach(self) -> None:
        """Lets go of a detached monitor: it goes on, and `attach` takes it up again.

        `MonitorError` for one that is not detached, which ends with this process.
        """
        self._require_detached()
        await self._carry_out(Goal.LET_GO)
        await self._closed()

    async def _carry_out(self, goal: Goal, grace: float = 0.0) -> None:
        wish = self._run.want(goal, grace)
        await self._run.async_wait_for(wish.is_done)
        wish.require_success()

    async def _give_up(self) -> None:
        """Kills, without a word about how that went: there is another error to be raised."""
        await until(self._run, self._run.want(Goal.KILL).is_done)

    async def _closed(self) -> int | None:
        if self._client is not None:
            await self._client.close()
        return self.returncode

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._settings.detached:
            return await self.detach()
        ended_badly = self._run.has_ended_badly()
        await self.stop()
        if ended_badly:
            self._run.tell_exit(error)


async def async_finished(work: Work[Result]) -> Result:
    """What work gives that a thread does; cancelling the task cancels it."""
    try:
        work.start()
        await work.async_wait_for(work.is_done)
    except BaseException:
        work.cancel()
        await until(work, work.is_done)
        raise
    return work.result()


async def until(broadcast: Broadcast, is_true: Callable[[], bool]) -> None:
    """Waits until something is true; a cancellation that comes meanwhile is raised after it."""
    cancelled = None
    while not is_true():
        try:
            await broadcast.async_wait_for(is_true)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
