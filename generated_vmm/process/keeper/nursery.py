"""The nursery of a process that starts monitors: it forks a keeper for each of them.

`python nursery.py SYS_PATH` is small, so a keeper is a cheap copy. One keeper is forked in advance
and waits for an order of the caller, on descriptor 3; then it says what it keeps, and the nursery
forks the next one. The nursery is a child subreaper too: it inherits what a keeper leaves that was
killed, ends it, and removes what its record names. It ends when its caller, whose pidfd is
descriptor 4, has ended and no keeper is left.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
from types import ModuleType

FOLDER = os.path.dirname(os.path.abspath(__file__))
PROCESS = os.path.dirname(FOLDER)
PACKAGES = {"generated_vmm": os.path.dirname(PROCESS), "generated_vmm.process": PROCESS}
if __name__ == "__main__":  # the packages import more than is needed here
    for name, folder in PACKAGES.items():
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = [folder]

from generated_vmm.process.keeper import keeper, kernel, messages  # noqa: E402
from generated_vmm.process.keeper.annotations import Any  # noqa: E402
from generated_vmm.process.keeper.kernel import Descriptor  # noqa: E402
from generated_vmm.process.keeper.program import RESET  # noqa: E402

ORDERS, CALLER, GIVEN = 3, 4, 5  # descriptors, and how many are given
NETWORK = "/proc/self/ns/net"
TAPS = "generated_vmm.process.keeper.taps"


class Nursery:
    """The keepers of one caller that are not collected yet, and what each keeps.

    One of them is idle: it waits for an order, and ends without one when the caller ends.
    """

    def __init__(self, orders: socket.socket, caller: Descriptor) -> None:
        self._orders, self._caller = orders, caller
        self._reports, self._reporting = messages.pair()
        self._reports.setblocking(False)
        self._keepers: dict[int, messages.Received | None] = {}
        self._idle: int | None = None
        self._has_caller = True
        self._woken, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def work(self) -> None:
        """Works until the caller has ended and no keeper is left."""
        while self._has_caller or self._keepers:
            failure = self._fork_idle()
            watched = [self._reports.fileno(), self._woken]
            if failure:
                watched += [self._orders.fileno(), self._caller.number]
            ready = kernel.ready_of(watched)
            if failure and ready.intersection(watched[2:]):
                self._refuse(failure)
            if self._woken in ready:
                os.read(self._woken, 65_536)
            self._hear_reports()
            self._collect()

    def _fork_idle(self) -> str:
        """Forks a keeper that waits for an order; why that is impossible."""
        try:
            if self._has_caller and self._idle is None:
                self._idle = self._fork()
        except OSError as error:
            return f"no keeper can be started: {kernel.reason(error)}"
        return ""

    def _fork(self, recovered: messages.Received | None = None) -> int:
        """A new keeper, which waits for an order or recovers. Raises OSError."""
        if pid := os.fork():
            self._keepers[pid] = None
            return pid
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            for kept in filter(None, self._keepers.values()):
                kept[1].clear()  # their network namespaces
            if recovered is None:
                self._carry_out_next()
            else:
                said, elsewhere = recovered
                module_of(said, elsewhere).recover(said)
            status = 0
        finally:
            os._exit(status)

    def _next_order(self) -> messages.Received | None:
        """The caller's next order; None once the caller or the nursery has ended."""
        watched = (self._orders.fileno(), self._caller.number, self._reporting.fileno())
        if self._orders.fileno() in kernel.ready_of(watched):
            return messages.receive(self._orders)
        return None

    def _carry_out_next(self) -> None:
        """The work of a keeper's process."""
        self._reports.close()
        if (received := self._next_order()) is None:
            return
        self._orders.close()
        said, (connection, namespace, *content) = received
        is_ours = os.fstat(namespace.number).st_ino == os.stat(NETWORK).st_ino
        elsewhere = [] if is_ours else [namespace]
        given = [each.number for each in elsewhere]
        messages.send(self._reporting, {**said, "pid": os.getpid()}, given)
        self._reporting.close()
        owner = messages.connection_of(connection)
        module_of(said, elsewhere).keep(owner, self._caller, said, content)

    def _refuse(self, failure: str) -> None:
        """Answers an order that no keeper can be forked for."""
        if (received := self._next_order()) is None:
            self._has_caller = False
            return
        with messages.connection_of(received[1][0]) as owner:
            messages.send(owner, {"event": "removed", "failure": failure, "left": []})

    def _hear_reports(self) -> None:
        for said, given in filter(None, messages.drain(self._reports)):
            self._keepers[said["pid"]] = said, given
            self._idle = None
            if "tap" in said:  # imported once, for all keepers to come
                with contextlib.suppress(ImportError):
                    importlib.import_module(TAPS)

    def _collect(self) -> None:
        """Collects keepers that have ended, and has the work done of those that were killed."""
        killed = []
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = found
                self._hear_reports()
                if pid == self._idle:
                    self._idle, self._has_caller = None, bool(status)
                kept = self._keepers.pop(pid, None)
                if kept is not None and status:
                    killed.append(kept)
        while killed and (theirs := set(kernel.children()) - self._keepers.keys()):
            for pid in theirs:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        for kept in killed:
            with contextlib.suppress(OSError):
                self._fork(kept)


def module_of(said: dict[str, Any], elsewhere: list[Descriptor]) -> Any:
    """What keeps a monitor or a tap, in the network namespace of the thread that ordered it."""
    for namespace in elsewhere:
        kernel.join(namespace.number)
    return importlib.import_module(TAPS) if "tap" in said else keeper


def main(orders: socket.socket, caller: Descriptor) -> None:
    """Takes orders on a socket; only the end of the caller ends it."""
    os.closerange(GIVEN, os.sysconf("SC_OPEN_MAX"))  # such as a server's listening socket
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in RESET[:3]:
        signal.signal(number, signal.SIG_IGN)
    kernel.become_subreaper()
    gc.disable()
    gc.freeze()
    Nursery(orders, caller).work()


if __name__ == "__main__":
    for name in PACKAGES:
        del sys.modules[name]
    sys.path[:] = json.loads(sys.argv[1])
    main(socket.socket(fileno=ORDERS), Descriptor(int, CALLER))
