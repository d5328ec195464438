"""The monitor as a context manager."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from generated_vmm.errors import VmmTimeoutError
from generated_vmm.facade import VmmClient
from generated_vmm.process.base import ASKING_SECONDS, ENDING, KILLING, Ending, MonitorBase
from generated_vmm.process.channels import MonitorChannel
from generated_vmm.process.child import Child
from generated_vmm.process.growing import Recent
from generated_vmm.process.log_line import LogLine
from generated_vmm.process.metrics_line import Metrics
from generated_vmm.process.outlets import LOG_LINES, METRICS_LINES, Outlets
from generated_vmm.process.place import Bare, Place
from generated_vmm.process.process import Process
from generated_vmm.process.serial import Serial
from generated_vmm.process.settings import HostPath, MonitorOptions, Settings
from generated_vmm.process.steps import ended, guest_ended, taken, until_ready


class Monitor(MonitorBase[VmmClient]):
    """Starts a monitor, gives a client for it, and ends it.

        with Monitor("firecracker", id="web") as monitor:
            monitor.client.boot("/vm/vmlinux", "/vm/rootfs.ext4")

    `binary` is the program's name or path, or a sequence with its first arguments. Nothing is
    started before `start` or `with`. At the end a guest that runs gets Ctrl+Alt+Del and `grace`
    seconds, then the process is signalled; the socket, the fifos and the sockets of vsock devices
    are removed. The process also ends when the caller dies, unless it is `detached`. The options
    are those of `MonitorOptions`; ValueError for one that no monitor could be started with.
    """

    def __init__(
        self,
        binary: HostPath | Sequence[HostPath] = "firecracker",
        **options: Unpack[MonitorOptions],
    ) -> None:
        self._set_up(Bare(binary, Settings(**options)))

    def _set_up(self, place: Place) -> None:
        self.serial = Serial(place.settings.serial_bytes, place.console_input)
        self.log: Recent[LogLine] = Recent(LOG_LINES)
        self.metrics: Recent[Metrics] = Recent(METRICS_LINES)
        self._process = Process(place, Outlets(self.serial, self.log, self.metrics))
        self._turn = threading.Lock()

    @classmethod
    def attach(cls, directory: HostPath) -> Self:
        """Takes up a detached monitor that still runs, from whatever process started it.

        Raises `MonitorExited` when it has ended, `MonitorError` when the folder is none of a
        detached monitor.
        """
        return cls._taken_up(directory)

    def start(self) -> Self:
        """Starts the monitor and waits until its socket answers.

        Raises `MonitorStartError` when it does not, with the last lines of the log; nothing is
        left of it then. A monitor is started once.
        """
        self._process.require_fresh()
        try:
            self._process.begin()
            self._wait_until_ready()
            self._process.settle()
        except BaseException as error:
            self.kill()
            explained = self._process.explained(error)
            raise explained from explained.__cause__
        self._connect()
        return self

    def _wait_until_ready(self) -> None:
        process = self._process
        with VmmClient(self.socket_path, timeout=process.place.settings.timeout) as client:
            taken(until_ready(process, client, Child.wait))

    def _connect(self) -> None:
        self._client = VmmClient(
            self.socket_path,
            max_body_bytes=self._process.place.settings.max_body_bytes,
            transport=MonitorChannel(self._process),
        )

    def wait(self, timeout: float | None = None) -> int | None:
        """Waits until the monitor has ended, and returns its `returncode`.

        Raises `VmmTimeoutError` when it has not within `timeout` seconds.
        """
        if not self._process.child.wait(timeout):
            raise VmmTimeoutError(f"the monitor has not ended within {timeout} s")
        return self.returncode

    def stop(self, grace: float | None = None) -> int | None:
        """Ends the monitor, removes its files and returns its `returncode`.

        A guest that runs gets Ctrl+Alt+Del and `grace` seconds (those of the options if None),
        then come SIGTERM and SIGKILL. Does nothing more the second time. What a signal raises
        meanwhile, as a second Ctrl+C, ends it at once.
        """
        with self._turn:
            try:
                if self._process.is_to_end and self.running:
                    self._end_guest(self._process.place.settings.grace if grace is None else grace)
                return self._end(ENDING)
            except (KeyboardInterrupt, SystemExit):
                self._end(KILLING)
                raise

    def kill(self) -> int | None:
        """Ends the monitor at once with SIGKILL, removes its files, returns its `returncode`."""
        with self._turn:
            return self._end(KILLING)

    def _end_guest(self, grace: float) -> None:
        process = self._process
        with VmmClient(self.socket_path, timeout=ASKING_SECONDS) as client:
            taken(guest_ended(process, client, Child.wait, grace))

    def _end(self, ending: Ending) -> int | None:
        if not self._process.is_to_end:
            return self.returncode
        taken(ended(self._process, Child.wait, ending))
        self._process.finish()
        if self._client is not None:
            self._client.close()
        return self.returncode

    def detach(self) -> None:
        """Lets go of a detached monitor: it goes on, and `attach` takes it up again.

        `MonitorError` for one that is not detached, which ends with this process.
        """
        with self._turn:
            self._process.let_go()
            if self._client is not None:
                self._client.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.place.settings.detached:
            return self.detach()
        ended_badly = self._process.has_ended_badly()
        self.stop()
        if ended_badly:
            self._process.tell_exit(error)
