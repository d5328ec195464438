"""The nursery of a process that starts monitors: it forks a keeper for each of them.

`python nursery.py SYS_PATH` is small, so a keeper is a cheap copy. An order comes on descriptor 3,
with the keeper's end of a connection to the caller.

The nursery is a child subreaper too: it inherits what a keeper leaves that was killed, ends it, and
removes what its record names. It ends when its caller, whose pidfd is descriptor 4, has ended and
no keeper is left.
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
from collections.abc import Callable
from functools import partial
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
    """The keepers of one caller that are not collected yet, and what each of them keeps."""

    def __init__(self, orders: socket.socket, caller: Descriptor) -> None:
        self._orders, self._caller = orders, caller
        self._kept: dict[int, tuple[list[str], list[Descriptor]]] = {}
        self._woken, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def work(self) -> None:
        """Works until the caller has ended and no keeper is left."""
        has_caller = True
        while has_caller or self._kept:
            callers = [self._orders.fileno(), self._caller.number] if has_caller else []
            ready = kernel.ready_of([self._woken, *callers])
            if ready.intersection(callers):
                has_caller = kernel.is_ready(self._orders.fileno()) and self._take_order()
            if self._woken in ready:
                os.read(self._woken, 65_536)
                self._collect()

    def _take_order(self) -> bool:
        """Takes an order, and returns whether there was one.

        It is dropped, and its connection closed, where descriptors are used up.
        """
        with contextlib.suppress(OSError):
            if (order := messages.receive(self._orders)) is None:
                return False
            self._carry_out(*order)
        return True

    def _carry_out(self, words: list[str], given: list[Descriptor]) -> None:
        """Forks a keeper in the network namespace of the thread that orders it, or says why not."""
        connection, namespace, content = given
        with contextlib.suppress(ImportError):
            module_of(words[0])  # imported once, for all keepers to come
        elsewhere = [namespace] if kernel.is_elsewhere(namespace.number) else []
        with socket.socket(fileno=os.dup(connection.number)) as owner:
            connection.close()
            try:
                self._fork(words, elsewhere, partial(self._keep, words[0], content, owner))
            except OSError as error:
                what = f"no keeper can be started: {kernel.reason(error)}"
                messages.send(owner, "removed", what)

    def _fork(self, kept: list[str], elsewhere: list[Descriptor], work: Callable[[], None]) -> None:
        """Forks a process that does some work in a network namespace, and ends. Raises OSError."""
        if pid := os.fork():
            self._kept[pid] = kept, elsewhere
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            self._orders.close()
            self._kept.clear()
            for namespace in elsewhere:
                kernel.join(namespace.number)
            work()
            status = 0
        finally:
            os._exit(status)

    def _keep(self, kind: str, content: Descriptor, owner: socket.socket) -> None:
        module_of(kind).keep(messages.content_of(content), owner, self._caller)

    def _collect(self) -> None:
        """Collects keepers that have ended, and has the work done of those that were killed."""
        killed = []
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                kept, elsewhere = self._kept.pop(found[0], ([], []))
                if kept and found[1]:
                    killed.append((kept, elsewhere))
        while killed and (theirs := set(kernel.children(os.getpid())) - self._kept.keys()):
            for pid in theirs:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        for (kind, *named), elsewhere in killed:
            with contextlib.suppress(OSError):
                self._fork([], elsewhere, partial(module_of(kind).clean, *named))


def module_of(kind: str) -> Any:
    """The module that keeps a tap or a monitor."""
    return importlib.import_module(TAPS) if kind == "tap" else keeper


def main(orders: socket.socket, caller: Descriptor) -> None:
    """Takes orders from a socket; only the end of the caller ends it."""
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
