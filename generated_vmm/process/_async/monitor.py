"""Monitors as context managers, unjailed and in a jail."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from generated_vmm.concurrency._async import from_thread
from generated_vmm.errors import VmmTimeoutError
from generated_vmm.facade import AsyncVmmClient
from generated_vmm.process._async.client import AsyncMonitorClient
from generated_vmm.process._async.streams import AsyncRingBuffer, AsyncSerial
from generated_vmm.process._async.waiting import finished, until, wait_for
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.jail_files import Progress
from generated_vmm.process.lines import LogLine, Metrics
from generated_vmm.process.outlets import LOG_LINES, METRICS_LINES, Outlets
from generated_vmm.process.run import Run
from generated_vmm.process.settings import HostPath, JailedOptions, MonitorOptions, Settings
from generated_vmm.process.supervisor import Goal
from generated_vmm.process.unjailed import Unjailed
from generated_vmm.process.view import JailView, MonitorView, jail_of
from generated_vmm.process.workspace import Workspace


class AsyncMonitor(MonitorView[AsyncVmmClient]):
    """Starts a monitor, gives a client for it, and ends it.

        async with AsyncMonitor("firecracker", id="web") as monitor:
            await monitor.client.boot("/vm/vmlinux", "/vm/rootfs.ext4")

    `binary` is the program's name or path, or a sequence with its first arguments. Nothing is
    started before `start` or the block. At the end a guest that runs gets Ctrl+Alt+Del and `grace`
    seconds, then the process is signalled; the socket, the fifos and the sockets of vsock devices
    are removed. The process also ends when the caller dies, unless it is `detached`. The options
    are those of `MonitorOptions`; ValueError for one that no monitor could be started with.

    A `start` that is interrupted (its task is cancelled, a signal handler raises) leaves nothing;
    a `stop` that is interrupted kills the monitor. `stop` and `kill` may be called at once by
    several tasks or threads, and in signal handlers of the main thread.
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
        return cls._attached(*await finished(cls._finding(directory)))

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

    async def wait(self, timeout: float | None = None) -> int | None:
        """Waits until the monitor has ended, and returns its `returncode`.

        Raises `VmmTimeoutError` when it has not within `timeout` seconds.
        """
        _ = self.pid
        try:
            await wait_for(self._run, self._run.is_over, timeout)
        except TimeoutError:
            raise VmmTimeoutError(f"the monitor has not ended within {timeout} s") from None
        return self.returncode

    async def stop(self, grace: float | None = None) -> int | None:
        """Ends the monitor, removes its files and returns its `returncode`.

        A guest that runs gets Ctrl+Alt+Del and `grace` seconds (those of the options if None),
        then come SIGTERM and SIGKILL. Does nothing more the second time. An interruption, as by a
        second Ctrl+C, ends it at once.
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
        try:
            wish = self._run.want(Goal.KILL)
            await until(self._run, wish.is_done)
        except BaseException:  # an interruption, which may come before the wait
            await self._give_up()
            raise
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
        await wait_for(self._run, wish.is_done)
        wish.require_success()

    async def _give_up(self) -> None:
        """Kills, without a word about how that went: there is another error to be raised."""
        await until(self._run, self._run.want(Goal.KILL).is_done)

    async def _closed(self) -> int | None:
        if self._client is not None:
            await self._client.close()
        return self.returncode

    async def __aenter__(self) -> Self:
        self._run.require_fresh()
        try:
            await self.start()
            return self
        except BaseException:  # it may have come after the start
            await self._give_up()
            raise

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


class AsyncJailedMonitor(JailView[AsyncVmmClient], AsyncMonitor):
    """An `AsyncMonitor` that the jailer starts: in a chroot, as another user, in control groups.

        async with AsyncJailedMonitor(id="web", uid=1234, gid=1234) as monitor:
            kernel = await monitor.copy_in("/vm/vmlinux")
            await monitor.client.boot(kernel, await monitor.copy_in("/vm/rootfs.ext4"))

    Needs root. `jailer` and `binary` are names or paths of programs; the other options are those of
    `JailedOptions`. `config_file`, `metadata` and `seccomp_filter` are the host's files and are
    copied in; `socket_path`, `log_path` and `metrics_path` are paths inside. At the end the jail
    is removed with all that is in it, and its control groups.
    """

    def __init__(
        self,
        jailer: HostPath = "jailer",
        binary: HostPath = "firecracker",
        **options: Unpack[JailedOptions],
    ) -> None:
        self._set_up(jail_of(jailer, binary, options))

    async def copy_in(
        self, source: HostPath, path: HostPath | None = None, *, progress: Progress | None = None
    ) -> str:
        """Copies a file into the jail, before or after the start; the path for the monitor.

        The copy is the jailed user's, and shares its blocks with the file where the file system
        can; else a thread copies it, and nothing is left of a copy that is interrupted. `path` is
        where, by default `/` and the file's own name; missing folders are made. `progress` is
        called with the bytes that were copied and the bytes that there are: by the event loop, or
        by that thread where there is none. Raises `FileExistsError` when there is something
        already, `MonitorStartError` when the jail is another monitor's.
        """
        await self._carry_out(Goal.CLAIM)
        told = None if progress is None else from_thread(progress)
        return await finished(self._copying(source, path, told))

    async def link_in(
        self, source: HostPath, path: HostPath | None = None, *, give: bool = False
    ) -> str:
        """Makes a hard link to a file in the jail; the path for the monitor.

        It stays one file with one owner and mode: those it had, or with `give` the jailed user
        becomes its owner, outside too. The user must be able to read it, and to write to it where
        the guest may. Raises `FileExistsError`, and `OSError` for a symbolic link (ELOOP) and for a
        file on another file system (EXDEV).
        """
        await self._carry_out(Goal.CLAIM)
        return await finished(self._linking(source, path, give=give))
