# Derived from `generated_vmm/process/_async/monitor.py` by `make codegen`. Do not edit.
"""Monitors as context managers, unjailed and in a jail."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Self, Unpack

from generated_vmm.concurrency._sync import from_thread
from generated_vmm.errors import VmmTimeoutError
from generated_vmm.facade import VmmClient
from generated_vmm.process._sync.client import MonitorClient
from generated_vmm.process._sync.streams import RingBuffer, Serial
from generated_vmm.process._sync.waiting import finished, until, wait_for
from generated_vmm.process.attaching import place_in
from generated_vmm.process.broadcast import Work
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.jail import Jail
from generated_vmm.process.jail_files import Progress, copy_in, link_in, target_of
from generated_vmm.process.lines import LogLine, Metrics
from generated_vmm.process.outlets import (
    LOG_BYTES,
    LOG_LINES,
    METRICS_BYTES,
    METRICS_LINES,
    Outlets,
)
from generated_vmm.process.owner import LONGEST_ENDING, Owner, Phase
from generated_vmm.process.place import Place
from generated_vmm.process.program import Descriptor
from generated_vmm.process.settings import (
    HostPath,
    JailedOptions,
    JailSettings,
    MonitorOptions,
    Settings,
)
from generated_vmm.process.view import JailView, MonitorView


class Monitor(MonitorView[VmmClient]):
    """Starts a monitor, has a client for it, and ends it.

        with Monitor("firecracker", id="web") as monitor:
            monitor.client.boot("/vm/vmlinux", "/vm/rootfs.ext4")

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
        self._set_up(Place(binary, Settings(**options)))

    def _set_up(self, place: Place) -> None:
        self.serial = Serial(place.settings.serial_bytes)
        self.log: RingBuffer[LogLine] = RingBuffer(LOG_LINES, LOG_BYTES)
        self.metrics: RingBuffer[Metrics] = RingBuffer(METRICS_LINES, METRICS_BYTES)
        self._owner = Owner(place, Outlets(self.serial, self.log, self.metrics))

    @classmethod
    def attach(cls, directory: HostPath) -> Self:
        """Returns a handle for a detached monitor that still runs, whichever process started it.

        Raises `MonitorExited` with its `returncode` if it has ended, and `MonitorError` if the
        folder is not that of a detached monitor, belongs to another user, or if another handle owns
        the monitor.
        """
        monitor = cls.__new__(cls)
        monitor._set_up(place_in(directory, cls._place_kind))
        try:
            monitor._owner.attach()
            monitor._reached(Phase.RUNNING)
            monitor._client = MonitorClient(monitor._owner)
            return monitor
        except BaseException:  # an interruption, perhaps after it was attached to
            monitor._owner.say("detach")
            until(monitor._owner, monitor._owner.has(Phase.FINISHED))
            raise

    def start(self) -> Self:
        """Starts the monitor and waits until its socket responds.

        If it does not, raises `MonitorStartError` with the last lines of the log and leaves nothing
        behind. A monitor is started once.
        """
        self._owner.require_fresh()
        try:
            self._owner.claim_once()
            self._prepare()
            self._owner.start()
            self._reached(Phase.RUNNING)
            self._client = MonitorClient(self._owner)
            return self
        except BaseException:
            self._give_up()
            raise

    def _prepare(self) -> None:
        """Makes what the program needs at its start, besides its folder."""

    def wait(self, timeout: float | None = None) -> int | None:
        """Waits until the monitor has ended, and returns its `returncode`.

        Raises `VmmTimeoutError` if it has not ended within `timeout` seconds.
        """
        _ = self.pid
        try:
            wait_for(self._owner, self._owner.is_over, timeout)
        except TimeoutError:
            raise VmmTimeoutError(f"the monitor has not ended within {timeout} s") from None
        return self.returncode

    def stop(self, grace: float | None = None) -> int | None:
        """Ends the monitor, removes its files and returns its `returncode`.

        A running guest gets Ctrl+Alt+Del and `grace` seconds (those of the options if None), then
        SIGTERM and SIGKILL follow. A second call does nothing. An interruption, for example by a
        second Ctrl+C, kills the monitor immediately.
        """
        try:
            return self._finished("stop", grace=self._grace(grace))
        except MonitorError:
            raise
        except BaseException:
            self._give_up()
            raise

    def kill(self) -> int | None:
        """Ends the monitor with SIGKILL, removes its files, and returns its `returncode`."""
        try:
            return self._finished("kill")
        except MonitorError:
            raise
        except BaseException:  # an interruption
            self._give_up()
            raise

    def detach(self) -> None:
        """Gives up ownership of a detached monitor, which continues; see `attach`.

        Raises `MonitorError` for a monitor that is not detached and ends with this process.
        """
        self._require_detached()
        self._finished("detach")

    def _reached(self, phase: Phase) -> None:
        wait_for(self._owner, self._owner.has(phase))
        self._owner.require_unfinished()

    def _finished(self, word: str, grace: float = 0.0) -> int | None:
        """Waits until nothing is left of the monitor, or it is given up."""
        seconds = grace + LONGEST_ENDING
        if self._owner.left:  # and an earlier call has told of it
            finished(Work(lambda _: self._owner.remove_left(), "monitor-remove"))
        self._owner.say(word, grace=grace)
        try:
            wait_for(self._owner, self._owner.has(Phase.FINISHED), seconds)
        except TimeoutError:
            raise self._owner.stuck(seconds) from None
        if self._client is not None:
            self._client.close()
        self._owner.require_removed()
        return self.returncode

    def _give_up(self) -> None:
        """Kills the monitor and ignores errors: the caller raises another one."""
        self._owner.say("kill")
        with contextlib.suppress(TimeoutError):
            until(self._owner, self._owner.has(Phase.FINISHED), LONGEST_ENDING)

    def __enter__(self) -> Self:
        self._owner.require_fresh()
        try:
            self.start()
            return self
        except BaseException:  # it may have come after the start
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
        ended_badly = self._owner.has_ended_badly()
        self.stop()
        if ended_badly:
            self._owner.tell_exit(error)


class JailedMonitor(JailView[VmmClient], Monitor):
    """As `Monitor`, started by the jailer: in a chroot, as another user, in control groups.

        with JailedMonitor(id="web", uid=1234, gid=1234) as monitor:
            kernel = monitor.copy_in("/vm/vmlinux")
            monitor.client.boot(kernel, monitor.copy_in("/vm/rootfs.ext4"))

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

    def copy_in(
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
        root = self._claimed()
        inner, owner = target_of(source, path), self._jail.owner
        told = None if progress is None else from_thread(progress)
        copy = partial(copy_in, root.number, source, inner, owner, told)
        finished(Work(copy, "monitor-copy"))
        return inner

    def link_in(self, source: HostPath, path: HostPath | None = None, *, give: bool = False) -> str:
        """Creates a hard link to a file in the jail; returns its path for the monitor.

        It remains one file with one owner and mode. With `give`, the jailed user becomes its owner,
        outside of the jail too. The user must be able to read it, and to write to it if the guest
        writes. Raises `FileExistsError`, and `OSError` for a symbolic link (ELOOP) or a file on
        another file system (EXDEV).
        """
        root = self._claimed()
        inner, owner = target_of(source, path), self._jail.owner
        link = partial(link_in, root.number, source, inner, owner, give=give)
        finished(Work(lambda _: link(), "monitor-link"))
        return inner

    def _claimed(self) -> Descriptor:
        """The root of the jail, whose folder is taken for this monitor."""
        self._owner.claim()
        self._reached(Phase.CLAIMED)
        return self._owner.opened_root()

    def _prepare(self) -> None:
        self._reached(Phase.CLAIMED)
        self._jail.require_root()
        for source, copy in self._jail.copies().items():
            self.copy_in(source, copy)
