"""The nursery of a process that starts monitors: it forks a keeper for each of them.

`python nursery.py SYS_PATH` is small, so a keeper is a cheap copy. It takes the caller's orders on
descriptor 3, and gives each to a keeper that it has forked in advance. It is a child subreaper too:
it inherits what a keeper leaves that was killed, ends it, and removes what its record names. It
ends when its caller, whose pidfd is descriptor 4, has ended and no keeper is left.
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

ORDERS, CALLER, GIVEN = 3, 4, 5  # descriptors, and how many are given
TAPS = "generated_vmm.process.keeper.taps"


class Nursery:
    """The keepers of one caller that are not collected yet; what each keeps, and its namespace.

    The work of one that was killed is nobody else's: a process that does it keeps nothing. One
    keeper more waits for the next work.
    """

    def __init__(self, orders: socket.socket, caller: Descriptor) -> None:
        self._orders, self._caller = orders, caller
        self._keepers: dict[int, messages.Received | None] = {}
        self._idle: dict[int, socket.socket] = {}  # one keeper that waits for its work
        self._has_caller = True
        self._woken, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def work(self) -> None:
        """Works until the caller has ended and no keeper is left."""
        while self._has_caller or self._keepers:
            callers = [self._orders.fileno(), self._caller.number] if self._has_caller else []
            with contextlib.suppress(OSError):
                if self._has_caller and not self._idle:
                    self._fork()
            ready = kernel.ready_of([self._woken, *callers])
            if self._woken in ready:
                os.read(self._woken, 65_536)
                self._collect()
            if ready.intersection(callers):
                with contextlib.suppress(OSError):  # no descriptors for it: its connection ends
                    self._take_order()

    def _take_order(self) -> None:
        """Gives an order to a keeper, or notes that the caller has ended."""
        received = None
        if kernel.is_ready(self._orders.fileno()):
            received = messages.receive(self._orders)
        if received is None:
            self._has_caller = False
            return self._idle.clear()
        said, (owner, namespace, *content) = received
        said["elsewhere"] = kernel.is_elsewhere(namespace.number)
        try:
            self._give("keep", said, [namespace] if said["elsewhere"] else [], owner, *content)
        except OSError as error:
            failure = f"no keeper can be started: {kernel.reason(error)}"
            with messages.connection_of(owner) as connection:
                messages.send(connection, {"event": "removed", "failure": failure, "left": []})
        if "tap" in said:  # imported once, for all keepers to come
            with contextlib.suppress(ImportError):
                importlib.import_module(TAPS)
            self._idle.clear()

    def _give(
        self, work: str, said: dict[str, Any], elsewhere: list[Descriptor], *given: Descriptor
    ) -> None:
        """Gives work to a keeper that waits for it. Raises OSError."""
        if work == "clean" or not self._idle:  # who killed the one may have killed both
            self._fork()
        pid, connection = self._idle.popitem()
        self._keepers[pid] = (said, elsewhere) if work == "keep" else None
        with connection:
            numbers = [each.number for each in (*elsewhere, *given)]
            messages.send(connection, {"work": work, **said}, numbers)

    def _fork(self) -> None:
        """Forks a keeper that waits for its work. Raises OSError."""
        ours, theirs = messages.pair()
        if pid := os.fork():
            theirs.close()
            self._idle[pid] = ours
            return
        status = 1
        try:
            ours.close()
            signal.set_wakeup_fd(-1)
            os.setsid()
            self._orders.close()
            for other in filter(None, self._keepers.values()):
                other[1].clear()
            if (received := messages.receive(theirs)) is not None:
                theirs.close()
                self._work(*received)
            status = 0
        finally:
            os._exit(status)

    def _work(self, said: dict[str, Any], given: list[Descriptor]) -> None:
        """A keeper's work, in the network namespace of the thread that ordered it."""
        module: Any = importlib.import_module(TAPS) if "tap" in said else keeper
        if said["elsewhere"]:
            with given.pop(0) as namespace:
                kernel.join(namespace.number)
        if said["work"] == "clean":
            module.clean(said)
        else:
            with messages.connection_of(given.pop(0)) as owner:
                module.keep(said, owner, self._caller, given)

    def _collect(self) -> None:
        """Collects keepers that have ended, and has the work done of those that were killed."""
        killed = []
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self._idle.pop(found[0], None)
                kept = self._keepers.pop(found[0], None)
                if kept is not None and found[1]:
                    killed.append(kept)
        known = {*self._keepers, *self._idle}
        while killed and (theirs := set(kernel.children(os.getpid())) - known):
            for pid in theirs:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        for kept in killed:
            with contextlib.suppress(OSError):
                self._give("clean", *kept)


def main(orders: socket.socket, caller: Descriptor) -> None:
    """Takes orders on a socket; only the end of the caller ends it."""
    os.closerange(GIVEN, os.sysconf("SC_OPEN_MAX"))  # such as a server's listening socket
    os.chdir("/")
    for number in kernel.RESET[:3]:
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
