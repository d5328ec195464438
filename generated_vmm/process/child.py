"""One process: waited for and signalled through its pidfd alone, never through its number.

A pidfd names the process it was opened for, also after the number was given to another one
(pidfd_open(2)).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from pathlib import Path

from generated_vmm.process.warden import is_ready

START_TIME = 19  # fields of /proc/PID/stat after the name: this one is number 22 (proc(5))


class Child:
    """A process that this one started, or one that it took up.

    `returncode` is as in `subprocess`; None while the process runs, and for ever when it is
    somebody else's child.
    """

    def __init__(self, pid: int, start_time: int | None = None) -> None:
        """ProcessLookupError when there is no such process, or another of that number."""
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.returncode: int | None = None
        self._ended = False
        self._lock = threading.Lock()
        if start_time is not None and start_time_of(pid) != start_time:
            self.close()
            raise ProcessLookupError(f"process {pid} is another one")

    @property
    def running(self) -> bool:
        """Whether the process has not ended; its exit status is collected when it has."""
        with self._lock:
            if not self._ended and is_ready(self.pidfd, 0):
                self._collect()
                self._ended = True
            return not self._ended

    def _collect(self) -> None:
        try:
            found = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:  # not our child, or somebody waits for every child
            return
        if found is not None:
            ended_by_itself = found.si_code == os.CLD_EXITED
            self.returncode = found.si_status if ended_by_itself else -found.si_status

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless the process has ended."""
        with self._lock:
            if not self._ended:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self.pidfd, number)

    def wait(self, seconds: float | None) -> bool:
        """Waits for the end; whether it came within the time."""
        if self.running:
            is_ready(self.pidfd, seconds)
        return not self.running

    async def async_wait(self, seconds: float | None) -> bool:
        """Waits for the end on the event loop; whether it came within the time."""
        if not self.running:
            return True
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        watched = os.dup(self.pidfd)  # a loop has one reader for each descriptor
        loop.add_reader(watched, ended.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await ended.wait()
        finally:
            loop.remove_reader(watched)
            os.close(watched)
        return not self.running

    def close(self) -> None:
        """Lets go of the process; safe to call twice."""
        with self._lock:
            if self.pidfd >= 0:
                os.close(self.pidfd)
            self.pidfd, self._ended = -1, True


def start_time_of(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot; None when it is gone."""
    fields = fields_of(pid)
    return None if fields is None else int(fields[START_TIME])


def fields_of(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the process's name; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return stat.rpartition(")")[2].split()
