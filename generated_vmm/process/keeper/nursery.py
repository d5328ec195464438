"""The nursery of a process that starts monitors: it forks a keeper for each of them.

`python nursery.py SYS_PATH` is small, so a keeper is a cheap copy. It offers the caller, on
descriptor 3, a connection to a keeper that it has forked in advance, and another one for each word
`next`. The caller's order goes straight to the keeper, which notes for the nursery what it keeps.

The nursery is a child subreaper too: it inherits what a keeper leaves that was killed, ends it, and
removes what its record names. It ends when its caller has ended and no keeper is left.
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
from types import ModuleType

FOLDER = os.path.dirname(os.path.abspath(__file__))
PROCESS = os.path.dirname(FOLDER)
PACKAGES = {"generated_vmm": os.path.dirname(PROCESS), "generated_vmm.process": PROCESS}
if __name__ == "__main__":  # the packages import more than is needed here
    for name, folder in PACKAGES.items():
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = [folder]

from generated_vmm.process.keeper import keeper, kernel, messages  # noqa: E402
from generated_vmm.process.keeper.kernel import Any, Descriptor  # noqa: E402
from generated_vmm.process.keeper.record import Order, Record  # noqa: E402

OFFERS = 3  # the last descriptor that is given
TAPS = "generated_vmm.process.keeper.taps"


class Nursery:
    """The keepers of one caller that are not collected yet, and what each of them has noted."""

    def __init__(self, offers: socket.socket) -> None:
        self._offers = offers
        self._forked: dict[int, list[str]] = {}
        self._namespaces: dict[int, list[Descriptor]] = {}  # of those that are not in ours
        self._notes, self._noting = messages.pair()
        self._notes.setblocking(False)
        self._woken, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def work(self) -> None:
        """Works until the caller has ended and no keeper is left."""
        has_caller = True
        self._offer()
        while has_caller or self._forked:
            callers = [self._offers.fileno()] if has_caller else []
            ready = kernel.ready_of([self._woken, self._notes.fileno(), *callers])
            if ready.intersection(callers):
                has_caller = messages.receive(self._offers) is not None
                if has_caller:
                    self._offer()
            self._read_notes()
            if self._woken in ready:
                os.read(self._woken, 65_536)
                self._collect()

    def _offer(self) -> None:
        """Offers the caller a keeper that waits for its order, or says why there is none."""
        try:
            ours, theirs = messages.pair()
            with ours, theirs:
                self._fork(self._wait_for_order, ours, theirs)
                messages.send(self._offers, "keeper", given=[ours.fileno()])
        except OSError as error:
            messages.send(self._offers, "none", error.errno)

    def _fork(self, work: Callable[..., None], *given: Any) -> None:
        """Forks a process that does some work and ends. Raises OSError."""
        if pid := os.fork():
            self._forked[pid] = []
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            self._offers.close()
            self._notes.close()
            self._namespaces.clear()
            work(*given)
            status = 0
        finally:
            os._exit(status)

    def _wait_for_order(self, offered: socket.socket, owner: socket.socket) -> None:
        """A keeper's work, in the network namespace of the thread that orders it."""
        offered.close()
        if (order := messages.receive(owner)) is None:
            return  # the caller has ended
        (kind, *named), (namespace, content) = order
        module = module_of(kind)
        elsewhere = [namespace.number] if kernel.is_elsewhere(namespace.number) else []
        messages.send(self._noting, os.getpid(), kind, *named, given=elsewhere)
        for number in elsewhere:
            kernel.join(number)
        namespace.close()
        module.keep(messages.content_of(content), owner)

    def _read_notes(self) -> None:
        """Takes the notes of keepers: the kind and the names of what each keeps."""
        for received in filter(None, messages.drain(self._notes)):
            (pid, *kept), elsewhere = received
            self._forked[int(pid)] = kept
            if elsewhere:
                self._namespaces[int(pid)] = elsewhere
            with contextlib.suppress(ImportError):
                module_of(kept[0])  # imported once, for all keepers to come

    def _collect(self) -> None:
        """Collects keepers that have ended, and has the work done of those that were killed."""
        ended = []
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                ended.append(found)
        self._read_notes()
        killed = []
        for pid, status in ended:
            noted = self._forked.pop(pid, []), self._namespaces.pop(pid, [])
            if noted[0] and status:
                killed.append(noted)
        while killed and (theirs := set(kernel.children(os.getpid())) - self._forked.keys()):
            for pid in theirs:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        for noted in killed:
            with contextlib.suppress(OSError):
                self._fork(clean, *noted)


def clean(kept: list[str], elsewhere: list[Descriptor]) -> None:
    """Removes what a killed keeper has left."""
    for namespace in elsewhere:
        kernel.join(namespace.number)
    kind, *named = kept
    module_of(kind).clean(*named)


def module_of(kind: str) -> Any:
    """The module that keeps a tap or a monitor."""
    return importlib.import_module(TAPS) if kind == "tap" else keeper


def rehearse() -> None:
    """Has a monitor refused, before the first keeper: all share what the interpreter notes now."""
    record = Record("/dev/null/monitor", None, {}, jailed=False)  # no folder can have this path
    how: Any = {"user": (0, 0), "argv": (), "env": {}}
    content = messages.in_memory(Order(record, **how, cwd="/", detached=False))
    owner, connection = messages.pair()
    with owner, connection:
        messages.send(owner, "kill")
        keeper.keep(messages.content_of(content), connection)


def main(offers: socket.socket) -> None:
    """Offers keepers on a socket; only the end of the caller ends it."""
    os.closerange(OFFERS + 1, os.sysconf("SC_OPEN_MAX"))  # such as a server's listening socket
    os.chdir("/")
    for number in kernel.RESET[:3]:
        signal.signal(number, signal.SIG_IGN)
    kernel.become_subreaper()
    gc.disable()
    rehearse()
    gc.freeze()
    Nursery(offers).work()


if __name__ == "__main__":
    for name in PACKAGES:
        del sys.modules[name]
    sys.path[:] = json.loads(sys.argv[1])
    main(socket.socket(fileno=OFFERS))
