"""The nursery of a process that starts monitors: it forks a keeper for each of them.

`python nursery.py SYS_PATH` is small, so a keeper is a cheap copy. On descriptor 3 the caller asks
for a keeper in advance, with the keeper's end of a connection: so an order goes straight to one
that waits for it. With each request the caller says what the keeper before gets to keep.

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

REQUESTS, CALLER, GIVEN = 3, 4, 5  # descriptors, and how many are given
TAPS = "generated_vmm.process.keeper.taps"


class Nursery:
    """The keepers of one caller that are not collected yet, and what each of them keeps."""

    def __init__(self, requests: socket.socket, caller: Descriptor) -> None:
        self._requests, self._caller = requests, caller
        self._kept: dict[int, list[str]] = {}  # kind and names
        self._namespaces: dict[int, list[Descriptor]] = {}  # of those that are not in ours
        self._newest = 0
        self._woken, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def work(self) -> None:
        """Works until the caller has ended and no keeper is left."""
        watched = [self._woken, self._requests.fileno(), self._caller.number]
        while len(watched) > 1 or self._kept:
            ready = kernel.ready_of(watched)
            if self._woken in ready:
                os.read(self._woken, 65_536)
                self._collect()
            elif watched[1] not in ready or not self._serve():
                del watched[1:]

    def _serve(self) -> bool:
        """Forks the keeper that the caller asks for; false if the caller has ended."""
        try:
            received = messages.receive(self._requests)
        except OSError:  # no descriptor was free: the caller sees the end of its connection
            return True
        if received is None:
            return False
        (_, *kept), (connection, *elsewhere) = received
        self._note(kept, elsewhere)
        try:
            self._newest = self._fork(self._wait_for_order, connection)
        except OSError as error:
            self._newest = 0
            messages.send(socket_of(connection), "none", error.errno)
        return True

    def _note(self, kept: list[str], elsewhere: list[Descriptor]) -> None:
        """Notes what the newest keeper gets to keep, before it has its order."""
        if self._newest in self._kept:
            self._kept[self._newest] = kept
            if elsewhere:
                self._namespaces[self._newest] = elsewhere
        if kept[:1] == ["tap"]:
            with contextlib.suppress(ImportError):
                module_of("tap")  # imported once, for all keepers to come

    def _fork(self, work: Callable[..., None], *given: Any) -> int:
        """Forks a process that does some work and ends. Raises OSError."""
        if pid := os.fork():
            self._kept[pid] = []
            return pid
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            self._requests.close()
            self._namespaces.clear()
            work(*given)
            status = 0
        finally:
            os._exit(status)

    def _wait_for_order(self, connection: Descriptor) -> None:
        """A keeper's work, in the network namespace of the thread that orders it."""
        owner = socket_of(connection)
        connection.close()
        messages.send(owner, "keeper")
        is_over = self._caller.number in kernel.ready_of([owner.fileno(), self._caller.number])
        if is_over or (order := messages.receive(owner)) is None:
            raise EOFError("the caller has ended, and the nursery cleans")
        (kind, *words), numbers = order
        if kind == "undo":
            messages.send(owner, "removed", "", *keeper.undo(*words))
            return
        given = dict(zip(words, numbers, strict=True))
        if "namespace" in given:
            kernel.join(given.pop("namespace").number)
        content = messages.content_of(given.pop("content"))
        module_of(kind).keep(content, owner, self._caller, **given)

    def _collect(self) -> None:
        """Collects keepers that have ended, and has the work done of those that were killed."""
        ended = []
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                ended.append(found)
        while kernel.is_ready(self._requests.fileno()) and self._serve():
            pass  # it says what they kept
        killed = []
        for pid, status in ended:
            noted = self._kept.pop(pid, []), self._namespaces.pop(pid, [])
            if noted[0] and status:
                killed.append(noted)
        while killed and (theirs := set(kernel.children(os.getpid())) - self._kept.keys()):
            for pid in theirs:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        for noted in killed:
            with contextlib.suppress(OSError):
                self._fork(clean, *noted)


def socket_of(connection: Descriptor) -> socket.socket:
    """Another descriptor of a connection, as a socket."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=os.dup(connection.number))


def clean(kept: list[str], elsewhere: list[Descriptor]) -> None:
    """Removes what a killed keeper or caller has left."""
    for namespace in elsewhere:
        kernel.join(namespace.number)
    kind, *named = kept
    module_of(kind).clean(*named)


def module_of(kind: str) -> Any:
    """The module that keeps a tap or a monitor."""
    return importlib.import_module(TAPS) if kind == "tap" else keeper


def main(requests: socket.socket, caller: Descriptor) -> None:
    """Forks the keepers that are asked for; only the end of the caller ends it."""
    os.closerange(GIVEN, os.sysconf("SC_OPEN_MAX"))  # such as a server's listening socket
    os.chdir("/")
    for number in kernel.RESET[:3]:
        signal.signal(number, signal.SIG_IGN)
    kernel.become_subreaper()
    gc.disable()
    gc.freeze()
    Nursery(requests, caller).work()


if __name__ == "__main__":
    for name in PACKAGES:
        del sys.modules[name]
    sys.path[:] = json.loads(sys.argv[1])
    main(socket.socket(fileno=REQUESTS), Descriptor(int, CALLER))
