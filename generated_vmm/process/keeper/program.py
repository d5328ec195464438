"""The program of a monitor, or the jailer that becomes it: the child of its keeper."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence

from generated_vmm.process.keeper import kernel
from generated_vmm.process.keeper.kernel import Descriptor
from generated_vmm.process.keeper.record import Order


class Program:
    """A process, from its start to its exit status."""

    def __init__(self) -> None:
        self.pid = 0
        self.pidfd: Descriptor | None = None
        self.status: int | None = None

    def start(self, order: Order, given: Sequence[Descriptor]) -> None:
        """Starts it with these descriptors as its first ones. Raises `Refused`."""
        life, self._life = (Descriptor(int, each) for each in os.pipe())
        with kernel.About("cwd", order.cwd):
            os.chdir(order.cwd)
        with kernel.About("binary", order.argv[0]):
            numbers = [each.number for each in (*given, life)]
            self.pid = kernel.spawn(order.argv, order.env, numbers)
        os.chdir("/")
        self.pidfd = Descriptor(os.pidfd_open, self.pid)
        kernel.end_with_us(self.pid, life.number)

    def is_running(self) -> bool:
        """Whether it runs. It is collected once it has ended, and has a status then."""
        if self.status is None and self.pidfd is not None and kernel.is_ready(self.pidfd.number):
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status is None

    def become_child(self) -> bool:
        """Continues with its child, if it has ended well: it was a jailer."""
        if self.status == 0 and (left := kernel.children(os.getpid())):
            self.pid, self.status = left[0], None
            self.pidfd = Descriptor(os.pidfd_open, self.pid)
        return self.status is None

    def kill(self) -> int | None:
        """Kills it with all that it has forked; its status."""
        if self.pid and self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)  # at once, whatever it forks
        ended = kernel.kill_children()
        self.status = ended.get(self.pid, self.status)
        return self.status
