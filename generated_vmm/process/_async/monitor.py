"""Monitors as context managers, unjailed and in a jail."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Self, Unpack

from generated_vmm.concurrency._async import from_thread
from generated_vmm.errors import VmmTimeoutError
from generated_vmm.facade import AsyncVmmClient
from generated_vmm.process._async.client import AsyncMonitorClient
from generated_vmm.process._async.streams import AsyncRingBuffer, AsyncSerial
from generated_vmm.process._async.waiting import finished, until, wait_for
from generated_vmm.process.broadcast import Work
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.jail import Jail
from generated_vmm.process.jail_files import Progress
from generated_vmm.process.lines import LogLine, Metrics
from generated_vmm.process.outlets import LOG_LINES, METRICS_LINES, Outlets
from generated_vmm.process.run import Run
from generated_vmm.process.settings import (
    HostPath,
    JailedOptions,
    JailSettings,
    MonitorOptions,
    Settings,
)
from generated_vmm.process.supervisor import Goal
from generated_vmm.process.view import JailView, MonitorView
from generated_vmm.process.workspace import Workspace


class AsyncMonitor(MonitorView[AsyncVmmClient]):
    """Starts a monitor, has a client for it, and ends it.

        async with AsyncMonitor("firecracker", id="web") as monitor:
            await monitor.client.boot("/vm/vmlinux", "/vm/rootfs.ext4")

    `binary` is the program's name or path, or a sequence with its first arguments. The monitor
    starts with `start` or with the block. At the end, a running guest gets Ctrl+Alt+Del and `grace`
    seconds, then the process is signalled; the socket, the fifos and the sockets of vsock devices
    are removed. The process also ends when the caller dies, unless it is `detached`. The options
    are those of `MonitorOptions`; an invalid option raises ValueError.

    An interrupted `start` (its task is cancelled, a signal handler raises) leaves nothing behind;
    an interrupted `stop` kills the monitor. Several tasks or threads, and signal handlers of the
    main thread, may call `stop` and `kill` at the same time.
    """

    def __init__(
        self,
        binary: HostPath | Sequence[HostPath] = "firecracker",
        **options: Unpack[MonitorOptions],
    ) -> None:
        self._set_up(Workspace(binary, Settings(**options)))

    def _set_up(self, workspace: Workspace) -> None:
        self.serial = AsyncSerial(workspace.settings.serial_bytes, workspace.open_console)
        self.log: AsyncRingBuffer[LogLine] = AsyncRingBuffer(LOG_LINES)
        self.metrics: AsyncRingBuffer[Metrics] = AsyncRingBuffer(METRICS_LINES)
        self._run = Run(workspace, Outlets(self.serial, self.log, self.metrics))

    def _connect(self) -> None:
        self._client = AsyncMonitorClient(self._run)

    @classmethod
    async def attach(cls, directory: HostPath) -> Self:
        """Returns a handle for a detached monitor that still runs, whichever process started it.

        Raises `MonitorExited` if it has ended, and `MonitorError` if the folder is not that of a
        detached monitor, belongs to another user, or if another handle owns the monitor.
        """
        monitor = cls.__new__(cls)
        try:
            monitor._take_up(*await finished(cls._finding(directory)))
            return monitor
        except BaseException:  # an interruption, which may have come after it was found
            if hasattr(monitor, "_run"):
                await until(monitor._run, monitor._run.want(Goal.LET_GO).is_done)
            raise

    async def start(self) -> Self:
        """Starts the monitor and waits until its socket responds.

        If it does not, raises `MonitorStartError` with the last lines of the log and leaves nothing
        behind. A monitor is started once.
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

        Raises `VmmTimeoutError` if it has not ended within `timeout` seconds.
        """
        _ = self.pid
        try:
            await wait_for(self._run, self._run.is_over, timeout)
        except TimeoutError:
            raise VmmTimeoutError(f"the monitor has not ended within {timeout} s") from None
        return self.returncode

    async def stop(self, grace: float | None = None) -> int | None:
        """Ends the monitor, removes its files and returns its `returncode`.

        A running guest gets Ctrl+Alt+Del and `grace` seconds (those of the options if None), then
        SIGTERM and SIGKILL follow. A second call does nothing. An interruption, for example by a
        second Ctrl+C, kills the monitor immediately.
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
        """Ends the monitor with SIGKILL, removes its files, and returns its `returncode`."""
        try:
            wish = self._run.want(Goal.KILL)
            await until(self._run, wish.is_done)
        except BaseException:  # an interruption, which may come before the wait
            await self._give_up()
            raise
        wish.require_success()
        return await self._closed()

    async def detach(self) -> None:
        """Gives up ownership of a detached monitor, which continues; see `attach`.

        Raises `MonitorError` for a monitor that is not detached and ends with this process.
        """
        self._require_detached()
        await self._carry_out(Goal.LET_GO)
        await self._closed()

    async def _carry_out(self, goal: Goal, grace: float = 0.0) -> None:
        wish = self._run.want(goal, grace)
        await wait_for(self._run, wish.is_done)
        wish.require_success()

    async def _give_up(self) -> None:
        """Kills the monitor and ignores errors: the caller raises another one."""
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
    """As `AsyncMonitor`, started by the jailer: in a chroot, as another user, in control groups.

        async with AsyncJailedMonitor(id="web", uid=1234, gid=1234) as monitor:
            kernel = await monitor.copy_in("/vm/vmlinux")
            await monitor.client.boot(kernel, await monitor.copy_in("/vm/rootfs.ext4"))

    Needs root. `jailer` and `binary` are names or paths of programs; the other options are those of
    `JailedOptions`. `config_file`, `metadata` and `seccomp_filter` are the host's files and are
    copied in; `socket_path`, `log_path` and `metrics_path` are paths inside. At the end the jail,
    all its files and its control groups are removed.
    """

    def __init__(
        self,
        jailer: HostPath = "jailer",
        binary: HostPath = "firecracker",
        **options: Unpack[JailedOptions],
    ) -> None:
        self._set_up(Jail(jailer, binary, JailSettings(**options)))

    async def copy_in(
        self, source: HostPath, path: HostPath | None = None, *, progress: Progress | None = None
    ) -> str:
        """Copies a file into the jail, before or after the start; returns its path for the monitor.

        The copy belongs to the jailed user, and shares its blocks with the file if the file system
        supports that. Otherwise a thread copies it; an interrupted copy is removed. `path` is the
        target, by default `/` and the file's own name; missing folders are created. `progress` is
        called with the number of copied bytes and of all bytes: by the event loop, or by that
        thread if there is none. Raises `FileExistsError` if the target exists, and
        `MonitorStartError` if the jail belongs to another monitor.
        """
        await self._carry_out(Goal.CLAIM)
        told = None if progress is None else from_thread(progress)
        copy = partial(self._jail.copy_in, source, path, told)
        return await finished(Work(copy, "monitor-copy"))

    async def link_in(
        self, source: HostPath, path: HostPath | None = None, *, give: bool = False
    ) -> str:
        """Creates a hard link to a file in the jail; returns its path for the monitor.

        It remains one file with one owner and mode. With `give`, the jailed user becomes its owner,
        outside of the jail too. The user must be able to read it, and to write to it if the guest
        writes. Raises `FileExistsError`, and `OSError` for a symbolic link (ELOOP) or a file on
        another file system (EXDEV).
        """
        await self._carry_out(Goal.CLAIM)
        jail = self._jail
        return await finished(Work(lambda _: jail.link_in(source, path, give=give), "monitor-link"))
