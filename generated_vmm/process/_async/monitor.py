"""Monitors as context managers."""

from __future__ import annotations

import contextlib
import socket
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Never, Self, Unpack

from generated_vmm.concurrency._async import Context
from generated_vmm.errors import VmmError, VmmTimeoutError
from generated_vmm.facade import AsyncVmmClient
from generated_vmm.facade.elsewhere import MONITOR
from generated_vmm.misuse import Told, require_kind, tell_unit
from generated_vmm.process._async.client import AsyncMonitorClient, note_socket
from generated_vmm.process._async.streams import AsyncRingBuffer, AsyncSerial
from generated_vmm.process._async.waiting import comes_true, until
from generated_vmm.process.errors import MonitorError, MonitorExited
from generated_vmm.process.outlets import MetricsReader, Outlets
from generated_vmm.process.owner import LONGEST_ENDING, NOT_STARTED, Ending, Owner, Phase
from generated_vmm.process.place import Place, Usage, usage_of
from generated_vmm.process.settings import HostPath, MonitorOptions
from generated_vmm.transport.calls import deadline_after

ASKING_SECONDS, SHORTEST_LIMIT = 1.0, 0.001
LOG_LINES, METRICS_LINES = 200, 60
LOG_BYTES, METRICS_BYTES = 1_048_576, 4_194_304


class AsyncMonitor(Context, Told):
    """Starts a monitor, has a client for it, and ends it.

        async with AsyncMonitor("firecracker", id="web") as monitor:
            await monitor.client.boot("/vm/vmlinux", "/vm/rootfs.ext4")

    `binary` is the program's name or path, or a sequence with its first arguments. The monitor
    starts with `start` or with the block. At the end, a running guest gets Ctrl+Alt+Del and `grace`
    seconds, then the process is killed; the socket, the fifos and the sockets of vsock devices
    are removed. The process also ends when the caller dies, unless it is `detached`. The options
    are those of `MonitorOptions`; an invalid option raises ValueError.

    An interrupted `start` (its task is cancelled, a signal handler raises) leaves nothing behind;
    an interrupted `stop` kills the monitor. Several tasks or threads, and signal handlers of the
    main thread, may call `stop` and `kill` at the same time.
    """

    _elsewhere = MONITOR

    _place_kind: ClassVar[type[Place]] = Place
    _client: AsyncVmmClient | None = None

    def __init__(
        self,
        binary: HostPath | Sequence[HostPath] = "firecracker",
        **options: Unpack[MonitorOptions],
    ) -> None:
        self._set_up(Place(binary, options))

    def _set_up(self, place: Any) -> None:
        self._place = place
        self.serial = AsyncSerial(place.settings.get("serial_bytes", 262_144))
        self.log = AsyncRingBuffer(str, LOG_LINES, LOG_BYTES)
        self.metrics = AsyncRingBuffer(MetricsReader().read, METRICS_LINES, METRICS_BYTES)
        for outlet, option in (self.log, "log_path"), (self.metrics, "metrics_path"):
            if path := place.settings.get(option):
                outlet.instead = f"{option}={str(path)!r}"
        self._owner = Owner(place, Outlets(self.serial, self.log, self.metrics))

    @classmethod
    async def attach(cls, directory: HostPath) -> Self:
        """Returns a handle for a detached monitor that still runs, whichever process started it.

        Raises `MonitorExited` with its `returncode` if it has ended, and `MonitorError` if the
        folder is not that of a detached monitor, belongs to another user, or if another handle owns
        the monitor.
        """
        monitor = cls.__new__(cls)
        monitor._set_up(cls._place_kind.found_in(directory))
        try:
            monitor._owner.attach()
            await monitor._reached(Phase.READY)
            monitor._client = AsyncMonitorClient(monitor._owner)
            return monitor
        except BaseException:  # an interruption, perhaps after it was attached to
            await monitor._give_up("detach")
            raise

    async def start(self) -> Self:
        """Starts the monitor and waits until its socket responds.

        If it does not, raises `MonitorStartError` with the last lines of the log and leaves nothing
        behind. A monitor is started once.
        """
        self._owner.require_unstarted()
        try:
            self._owner.take()
            await self._prepare()
            if "config_file" in self._place.settings:
                self._owner.say("binding")
            self._owner.say("start")
            await self._reached(Phase.TAKEN)
            return await self._responding(self._place.settings.get("timeout", 10.0))
        except BaseException:
            await self._give_up()
            raise

    async def _prepare(self) -> None:
        """Makes what the program needs at its start, besides its folder."""

    async def _responding(self, seconds: float) -> Self:
        """Waits for a response: the monitor listens before it has read its configuration."""
        deadline = deadline_after(seconds)
        await self._reached(Phase.READY, seconds)
        try:
            async with self._asking(max(SHORTEST_LIMIT, deadline - time.monotonic())) as client:
                await client.get_instance_info()
        except VmmError as error:
            raise self._owner.not_started(f"did not respond: {error}") from error
        self._owner.say("up")
        if "config_file" in self._place.settings:
            await note_socket(self._owner, deadline)
        self._client = AsyncMonitorClient(self._owner)
        return self

    def _asking(self, seconds: float) -> AsyncMonitorClient:
        """A client with a connection that no other call holds."""
        return AsyncMonitorClient(self._owner).with_options(timeout=seconds)

    async def _reached(self, phase: Phase, seconds: float | None = None) -> None:
        """Waits for a report of the keeper; `MonitorStartError` if none comes for long."""
        seconds = seconds or LONGEST_ENDING
        if not await comes_true(self._owner, self._owner.has(phase), seconds):
            raise self._owner.not_started(f"did not respond within {seconds} s")
        self._owner.require_unfinished()

    async def wait(self, timeout: float | None = None) -> int | None:
        """Waits until the monitor has ended, and returns its `returncode`.

        Raises `VmmTimeoutError` if it has not ended within `timeout` seconds.
        """
        _ = self.pid
        if not await comes_true(self._owner, self._owner.is_over, timeout):
            raise VmmTimeoutError(f"the monitor has not ended within {timeout} s")
        return self.returncode

    async def stop(self, grace: float | None = None) -> int | None:
        """Ends the monitor, removes its files and returns its `returncode`.

        A running guest gets Ctrl+Alt+Del and `grace` seconds (those of the options if None), then
        SIGKILL follows. A second call does nothing. An interruption, for example by a
        second Ctrl+C, kills the monitor immediately.
        """
        require_kind("grace", grace, "a number of seconds", int, float)
        tell_unit("grace", grace or 0)
        seconds = self._place.settings.get("grace", 5.0) if grace is None else grace
        return await self._end("stop", seconds)

    async def kill(self) -> int | None:
        """Ends the monitor at once, removes its files, and returns its `returncode`."""
        return await self._end("kill", 0.0)

    async def _end(self, word: str, grace: float) -> int | None:
        """Waits until nothing is left of the monitor."""
        try:
            if grace and self._owner.phase is Phase.READY:
                self._owner.expect_end()
                await self._ask_guest(grace)
            self._owner.say(word)
            await self._finish(LONGEST_ENDING)
        except MonitorError:
            raise
        except BaseException:  # an interruption
            await self._give_up()
            raise
        self._owner.require_removed()
        return self.returncode

    async def _ask_guest(self, grace: float) -> None:
        """A running guest gets Ctrl+Alt+Del and time."""
        with contextlib.suppress(VmmError):
            async with self._asking(ASKING_SECONDS) as client:
                if (await client.get_instance_info()).state == "Running":
                    await client.action("SendCtrlAltDel")
                    await comes_true(self._owner, self._owner.is_over, grace)

    async def detach(self) -> None:
        """Gives up ownership of a detached monitor, which continues; see `attach`.

        Raises `MonitorError` for a monitor that is not detached and ends with this process.
        """
        if not self._place.settings.get("detached"):
            raise MonitorError("only a detached monitor can be given up")
        _ = self.pid
        self._owner.say("detach")
        await self._finish(LONGEST_ENDING)

    async def _finish(self, seconds: float) -> None:
        if not await comes_true(self._owner, self._owner.has(Phase.FINISHED), seconds):
            what = f"process {self.pid} was killed and does not end"
            if self._owner.has_ended:
                what = "the monitor ended, and is still being removed"
            raise MonitorError(f"{what} after {seconds} s")
        if self._client is not None:
            await self._client.close()

    async def _give_up(self, word: str = "kill") -> None:
        """Kills or detaches the monitor, and ignores errors: the caller raises another one."""
        self._owner.say(word)
        await until(self._owner, self._owner.has(Phase.FINISHED), LONGEST_ENDING)

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except MonitorError:
            raise
        except BaseException:  # an interruption, perhaps after the start
            await self._give_up()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._place.settings.get("detached"):
            return await self.detach()
        ended_badly = self._owner.has_ended_badly()
        await self.stop()
        if ended_badly:
            exited = self._owner.exited()
            if error is None:
                raise exited
            if not isinstance(error, MonitorExited):
                error.add_note(str(exited))

    def __reduce__(self) -> Never:
        """Raises TypeError: a monitor belongs to the process that started it."""
        what = "a monitor belongs to the process that started it"
        raise TypeError(f"{what}: give another one its socket_path, for a VmmClient")

    @property
    def client(self) -> AsyncVmmClient:
        """The client of the monitor; its calls raise `MonitorExited` once the monitor has ended.

        Raises `MonitorError` before the start.
        """
        if self._client is None:
            raise MonitorError(NOT_STARTED)
        return self._client

    @property
    def directory(self) -> Path:
        """The monitor's folder. Raises `MonitorError` for a temporary one before the start."""
        return Path(self._place.directory)

    @property
    def socket_path(self) -> Path:
        """The API's socket; as with `directory`, `MonitorError` is possible before the start."""
        return Path(self._place.socket_path)

    @property
    def id(self) -> str | None:
        """The instance id of the monitor."""
        found: str | None = self._place.settings.get("id")
        return found

    @property
    def pid(self) -> int:
        """The process id. Raises `MonitorError` before the start."""
        return self._owner.pid

    @property
    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._owner.is_running

    @property
    def returncode(self) -> int | None:
        """The exit status as in `subprocess`: negative for a signal.

        None while the process runs, after `detach`, and if the monitor's keeper was killed.
        """
        return self._owner.returncode

    @property
    def ending(self) -> Ending | None:
        """How this handle is over: "ended" with a `returncode`, "handed over" by `detach`, "lost".

        "lost" means that the monitor's keeper was killed, and the monitor with it. None before.
        """
        return self._owner.ending

    def outside(self, path: HostPath) -> Path:
        """The path on the host of a path that the monitor sees.

        The user of a jail owns its root: the file may be a link, to anywhere.
        """
        return self._owner.place.outside(path)

    def connect(self, connection: socket.socket) -> None:
        """Connects a socket to the API, for a second client with a channel of its own.

        Raises OSError unless a process of this monitor listens there.
        """
        self._owner.connect(connection)

    def usage(self) -> Usage:
        """The process's use of the host. Raises `MonitorExited` if it has ended."""
        pid = self.pid
        found = usage_of(pid) if self._owner.is_running else None
        if found is None or not self._owner.is_running:
            raise self._owner.exited()
        return found

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._owner!r}>"

    def __del__(self) -> None:
        owner = getattr(self, "_owner", None)  # None if an option was refused
        if owner and owner.is_running and "detached" not in owner.place.settings:
            what = f"{self!r} was never stopped, and runs until its program ends"
            what += "; with detached=True it goes on, and detached=False says that this is meant"
            warnings.warn(what, RuntimeWarning, stacklevel=2, source=self)
