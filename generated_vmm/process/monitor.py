"""The monitor as a context manager."""

from __future__ import annotations

import os
import socket
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar, Unpack

from generated_vmm.errors import VmmTimeoutError
from generated_vmm.facade import VmmClient
from generated_vmm.process.broadcast import RingBuffer, Work
from generated_vmm.process.channels import MonitorClient
from generated_vmm.process.child import Child, Usage
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.jail import Jail
from generated_vmm.process.lines import LogLine, Metrics
from generated_vmm.process.outlets import LOG_LINES, METRICS_LINES, Outlets
from generated_vmm.process.run import Run
from generated_vmm.process.serial import Serial
from generated_vmm.process.settings import HostPath, MonitorOptions, Settings
from generated_vmm.process.supervisor import Goal
from generated_vmm.process.unjailed import Unjailed
from generated_vmm.process.workspace import Workspace, find_detached

Client = TypeVar("Client")
Result = TypeVar("Result")


class MonitorBase(Generic[Client]):
    """What a monitor shows, whether one waits for it with threads or with tasks."""

    _run: Run
    _client: Client | None = None
    _workspace_kind: type[Unjailed | Jail] = Unjailed

    @abstractmethod
    def _set_up(self, workspace: Workspace) -> None:
        """Makes the outlets and the run that is not yet started."""

    @abstractmethod
    def _connect(self) -> None:
        """Makes the client."""

    @classmethod
    def _finding(cls, directory: HostPath) -> Work[tuple[Workspace, Child]]:
        kind, path = cls._workspace_kind, os.path.abspath(directory)
        return Work(lambda _: find_detached(kind, path), "monitor-attach")

    @classmethod
    def _attached(cls, workspace: Workspace, child: Child) -> Self:
        monitor = cls.__new__(cls)
        monitor._set_up(workspace)
        monitor._run.take_up(child)
        monitor._connect()
        return monitor

    @property
    def client(self) -> Client:
        """The client of the monitor; its calls raise `MonitorExited` once the monitor has ended.

        `MonitorError` before the start.
        """
        if self._client is None:
            raise MonitorError("the monitor has not been started")
        return self._client

    @property
    def directory(self) -> Path:
        """The monitor's folder. `MonitorError` for a temporary one before the start."""
        return self._run.workspace.directory

    @property
    def socket_path(self) -> Path:
        """The API's socket. `MonitorError` for one in a temporary folder before the start."""
        return Path(self._run.workspace.socket_path)

    @property
    def id(self) -> str | None:
        """The instance id that the monitor was given."""
        return self._run.workspace.id

    @property
    def pid(self) -> int:
        """The number of the process. `MonitorError` before the start."""
        return self._run.child.pid

    @property
    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._run.is_running

    @property
    def returncode(self) -> int | None:
        """The exit status as in `subprocess`: negative for a signal.

        None while the process runs, and when only its parent was told, as for a monitor that was
        taken up with `attach` or that is in a PID namespace of its own.
        """
        return self._run.returncode

    def connect(self, connection: socket.socket) -> None:
        """Connects a socket to the API, for a second client with a channel of its own.

        OSError unless a process of this monitor answers there.
        """
        self._run.workspace.connect(connection)

    def usage(self) -> Usage:
        """What the process has used of the host. `MonitorExited` when it has ended."""
        found = self._run.child.usage()
        if found is None:
            raise self._run.exited()
        return found

    @property
    def _settings(self) -> Settings:
        return self._run.workspace.settings

    def _grace(self, grace: float | None) -> float:
        return self._settings.grace if grace is None else grace

    def _require_detached(self) -> None:
        if not self._settings.detached:
            raise MonitorError("only a detached monitor can be let go")
        _ = self.pid

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._run!r}>"


class Monitor(MonitorBase[VmmClient]):
    """Starts a monitor, gives a client for it, and ends it.

        with Monitor("firecracker", id="web") as monitor:
            monitor.client.boot("/vm/vmlinux", "/vm/rootfs.ext4")

    `binary` is the program's name or path, or a sequence with its first arguments. Nothing is
    started before `start` or `with`. At the end a guest that runs gets Ctrl+Alt+Del and `grace`
    seconds, then the process is signalled; the socket, the fifos and the sockets of vsock devices
    are removed. The process also ends when the caller dies, unless it is `detached`. The options
    are those of `MonitorOptions`; ValueError for one that no monitor could be started with.

    `stop` and `kill` may be called by several threads and by signal handlers at once.
    """

    def __init__(
        self,
        binary: HostPath | Sequence[HostPath] = "firecracker",
        **options: Unpack[MonitorOptions],
    ) -> None:
        self._set_up(Unjailed(binary, Settings(**options)))

    def _set_up(self, workspace: Workspace) -> None:
        self.serial = Serial(workspace.settings.serial_bytes, workspace.open_console)
        self.log: RingBuffer[LogLine] = RingBuffer(LOG_LINES)
        self.metrics: RingBuffer[Metrics] = RingBuffer(METRICS_LINES)
        self._run = Run(workspace, Outlets(self.serial, self.log, self.metrics))

    def _connect(self) -> None:
        self._client = MonitorClient(self._run)

    @classmethod
    def attach(cls, directory: HostPath) -> Self:
        """Takes up a detached monitor that still runs, from whatever process started it.

        Raises `MonitorExited` when it has ended, `MonitorError` when the folder is none of a
        detached monitor, somebody else's, or when another handle owns the monitor.
        """
        return cls._attached(*finished(cls._finding(directory)))

    def start(self) -> Self:
        """Starts the monitor and waits until its socket answers.

        Raises `MonitorStartError` when it does not, with the last lines of the log; nothing is
        left of it then. A monitor is started once.
        """
        self._run.require_fresh()
        try:
            self._carry_out(Goal.RUN)
            self._connect()
            return self
        except BaseException:
            self._give_up()
            raise

    def wait(self, timeout: float | None = None) -> int | None:
        """Waits until the monitor has ended, and returns its `returncode`.

        Raises `VmmTimeoutError` when it has not within `timeout` seconds.
        """
        _ = self.pid
        try:
            self._run.wait_for(self._run.is_over, timeout)
        except TimeoutError:
            raise VmmTimeoutError(f"the monitor has not ended within {timeout} s") from None
        return self.returncode

    def stop(self, grace: float | None = None) -> int | None:
        """Ends the monitor, removes its files and returns its `returncode`.

        A guest that runs gets Ctrl+Alt+Del and `grace` seconds (those of the options if None),
        then come SIGTERM and SIGKILL. Does nothing more the second time. What a signal handler
        raises meanwhile, as at a second Ctrl+C, ends it at once.
        """
        try:
            self._carry_out(Goal.STOP, self._grace(grace))
        except MonitorError:
            raise
        except BaseException:
            self._give_up()
            raise
        return self._closed()

    def kill(self) -> int | None:
        """Ends the monitor at once with SIGKILL, removes its files, returns its `returncode`."""
        self._carry_out(Goal.KILL)
        return self._closed()

    def detach(self) -> None:
        """Lets go of a detached monitor: it goes on, and `attach` takes it up again.

        `MonitorError` for one that is not detached, which ends with this process.
        """
        self._require_detached()
        self._carry_out(Goal.LET_GO)
        self._closed()

    def _carry_out(self, goal: Goal, grace: float = 0.0) -> None:
        wish = self._run.want(goal, grace)
        self._run.wait_for(wish.is_done)
        wish.require_success()

    def _give_up(self) -> None:
        """Kills, without a word about how that went: there is another error to be raised."""
        self._run.wait_for(self._run.want(Goal.KILL).is_done)

    def _closed(self) -> int | None:
        if self._client is not None:
            self._client.close()
        return self.returncode

    def __enter__(self) -> Self:
        self._run.require_fresh()
        try:
            self.start()
            return self
        except BaseException:
            self._give_up()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._settings.detached:
            return self.detach()
        ended_badly = self._run.has_ended_badly()
        self.stop()
        if ended_badly:
            self._run.tell_exit(error)


def finished(work: Work[Result]) -> Result:
    """What work gives that a thread does; what a signal handler raises meanwhile cancels it."""
    try:
        work.start()
        work.wait_for(work.is_done)
    except BaseException:
        work.cancel()
        work.wait_for(work.is_done)
        raise
    return work.result()
