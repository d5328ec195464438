"""The nursery of a process that starts monitors: it forks a keeper for each of them.

`python nursery.py SYS_PATH` is small, so a keeper is a cheap copy. It takes the caller's orders on
descriptor 3. It is a child subreaper too: it inherits what a keeper leaves that was killed, ends
it, and removes what its record names. It ends when its caller, whose pidfd is descriptor 4, has
ended and no keeper is left.
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
    """The keepers of one caller that are not collected yet; what each keeps, and its namespace.

    The work of one that was killed is nobody else's: a process that does it keeps nothing.
    """

    def __init__(self, orders: socket.socket, caller: Descriptor) -> None:
        self._orders, self._caller = orders, caller
        self._keepers: dict[int, messages.Received | None] = {}
        self._has_caller = True
        self._woken, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def work(self) -> None:
        """Works until the caller has ended and no keeper is left."""
        while self._has_caller or self._keepers:
            callers = [self._orders.fileno(), self._caller.number] if self._has_caller else []
            ready = kernel.ready_of([self._woken, *callers])
            if self._woken in ready:
                os.read(self._woken, 65_536)
                self._collect()
            if ready.intersection(callers):
                with contextlib.suppress(OSError):  # no descriptors for it: its connection ends
                    self._take_order()

    def _take_order(self) -> None:
        """Forks a keeper for an order, or notes that the caller has ended."""
        received = None
        if kernel.is_ready(self._orders.fileno()):
            received = messages.receive(self._orders)
        if received is None:
            self._has_caller = False
            return
        said, given = received
        with messages.connection_of(given.pop(0)) as owner:
            kept = said, [each for each in (given.pop(0),) if is_elsewhere(each)]
            try:
                self._keepers[self._fork(kept, "keep", owner, self._caller, given)] = kept
            except OSError as error:
                failure = f"no keeper can be started: {kernel.reason(error)}"
                messages.send(owner, {"event": "removed", "failure": failure, "left": []})
        if "tap" in said:  # imported once, for all keepers to come
            with contextlib.suppress(ImportError):
                importlib.import_module(TAPS)

    def _fork(self, kept: messages.Received, name: str, *what: object) -> int:
        """The number of a new process that does a keeper's work of this name. Raises OSError."""
        if pid := os.fork():
            return pid
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            self._orders.close()
            for other in filter(None, self._keepers.values()):
                other[1].clear()
            said, elsewhere = kept
            for namespace in elsewhere:
                kernel.join(namespace.number)
            module: Any = importlib.import_module(TAPS) if "tap" in said else keeper
            getattr(module, name)(said, *what)
            status = 0
        finally:
            os._exit(status)

    def _collect(self) -> None:
        """Collects keepers that have ended, and has the work done of those that were killed."""
        killed = []
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                kept = self._keepers.pop(found[0], None)
                if kept is not None and found[1]:
                    killed.append(kept)
        while killed and (theirs := set(kernel.children(os.getpid())) - self._keepers.keys()):
            for pid in theirs:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        for kept in killed:
            with contextlib.suppress(OSError):
                self._keepers[self._fork(kept, "recover")] = None


def is_elsewhere(namespace: Descriptor) -> bool:
    """Whether it is a network namespace other than ours."""
    return os.fstat(namespace.number).st_ino != os.stat(NETWORK).st_ino


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
