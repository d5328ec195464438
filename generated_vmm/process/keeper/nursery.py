"""The nursery of a process that starts monitors: it forks a keeper for each of them.

`python nursery.py SYS_PATH` takes orders on descriptor 3. It is small, so a keeper is a cheap copy.
It is a child subreaper too: it inherits what a keeper leaves that was killed, ends it, and removes
what its record names. It ends when its caller has ended and no keeper is left.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))
PROCESS = os.path.dirname(FOLDER)
PACKAGES = {"generated_vmm": os.path.dirname(PROCESS), "generated_vmm.process": PROCESS}
if __name__ == "__main__":  # the packages import more than is needed here
    for name, folder in PACKAGES.items():
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = [folder]

from generated_vmm.process.keeper import messages  # noqa: E402
from generated_vmm.process.keeper.keeper import RESET, described, keep  # noqa: E402
from generated_vmm.process.keeper.kernel import (  # noqa: E402
    Refused,
    become_subreaper,
    children,
    is_ready,
    join,
    reason,
)
from generated_vmm.process.keeper.leftovers import recover  # noqa: E402

ORDERS = 3  # the descriptor
IDLE = {"word": "recover"}  # what a keeper without an order leaves: nothing
TAPS = "generated_vmm.process.keeper.taps"


class Nursery:
    """The orders of one caller, and the keepers that are not collected yet.

    One keeper is forked in advance when there is nothing else to do: it waits for its order.
    """

    def __init__(self, orders: socket.socket) -> None:
        self._orders: socket.socket | None = orders
        self._caller: int | None = None
        self._keepers: dict[int, tuple[dict[str, Any], list[int]]] = {}
        self._spare: tuple[int, socket.socket] | None = None
        self._woken, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def work(self) -> None:
        """Works until the caller has ended and no keeper is left."""
        while self._orders is not None or self._keepers:
            waiting = select.poll()
            for each in self._watched():
                waiting.register(each, select.POLLIN)
            is_wanting = self._orders is not None and self._spare is None
            ready = {each for each, _ in waiting.poll(0 if is_wanting else None)}
            if not ready:
                with contextlib.suppress(OSError):
                    self._spare = self._fork()
            if self._woken in ready:
                os.read(self._woken, 65_536)
                self._collect()
            if self._orders is not None and ready - {self._woken}:
                self._hear(self._orders)

    def _watched(self) -> list[int]:
        orders = [] if self._orders is None else [self._orders.fileno()]
        return [self._woken, *orders, *([] if self._caller is None else [self._caller])]

    def _hear(self, orders: socket.socket) -> None:
        """Carries out the caller's orders, all of them before its end counts."""
        is_gone = self._caller is not None and is_ready(self._caller, 0)
        for received in messages.drain(orders):
            if received is None:
                is_gone = True
            elif received[0]["word"] == "caller":
                (self._caller,) = received[1]
            else:
                self._carry_out(*received)
        if is_gone:
            orders.close()
            _close([] if self._caller is None else [self._caller])
            self._orders = self._caller = None
            self._dismiss_spare()

    def _carry_out(self, said: dict[str, Any], given: list[int]) -> None:
        """Gives a keeper its order, with its end of the connection to the owner."""
        if said["word"] == "tap" and TAPS not in sys.modules:  # this once, for all their keepers
            with contextlib.suppress(ImportError):
                importlib.import_module(TAPS)
            self._dismiss_spare()
        try:
            self._give(said, given, given[3:])
            given = given[:3]
        except OSError as error:
            owner = socket.socket(fileno=os.dup(given[0]))
            failure = described(Refused(f"no keeper can be started: {reason(error)}"))
            messages.send(owner, {"event": "removed", "failure": failure, "left": []})
            owner.close()
        finally:
            _close(given)

    def _give(self, said: dict[str, Any], given: list[int], namespaces: list[int]) -> None:
        """Gives a keeper its work. Raises OSError if none can be forked."""
        is_there = False
        while not is_there:  # a spare one may have been killed
            pid, connection = self._spare or self._fork(given)
            self._spare = None
            self._keepers[pid] = said, namespaces
            with connection:
                is_there = messages.send(connection, said, given)

    def _fork(self, given: Sequence[int] = ()) -> tuple[int, socket.socket]:
        """A new keeper, and the connection on which it gets its work, and copies of `given`.

        Raises OSError.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                pid = os.fork()
            except OSError:
                ours.close()
                raise
            if pid:
                self._keepers[pid] = IDLE, []
                return pid, ours
            status = 1
            try:
                ours.close()
                _close(given)
                self._become_keeper(theirs)
                status = 0
            finally:
                os._exit(status)

    def _become_keeper(self, connection: socket.socket) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self._watched(), *(namespaces for _, namespaces in self._keepers.values())):
            _close(each)
        os.setsid()
        received = messages.receive(connection)
        connection.close()
        if received is not None:
            carry_out(*received)

    def _dismiss_spare(self) -> None:
        if self._spare is not None:
            self._spare[1].close()
        self._spare = None

    def _collect(self) -> None:
        """Collects keepers that have ended, and does the work of those that were killed."""
        killed = []
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = found
                if self._spare is not None and self._spare[0] == pid:
                    self._dismiss_spare()
                said, namespaces = self._keepers.pop(pid, (IDLE, []))
                if status and said["word"] != "recover":
                    killed.append(({**said, "word": "recover"}, namespaces))
                else:
                    _close(namespaces)
        while killed and (orphans := set(children()) - self._keepers.keys()):  # of these keepers
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        for said, namespaces in killed:
            with contextlib.suppress(OSError):
                self._give(said, namespaces, namespaces)


def carry_out(said: dict[str, Any], given: list[int]) -> None:
    """The work of a keeper's process."""
    recovers = said["word"] == "recover"
    for namespace in given if recovers else given[3:]:  # that of the thread that ordered it
        join(namespace)
    taps: Any = importlib.import_module(TAPS) if "tap" in said else None
    if recovers:
        (recover if taps is None else taps.recover)(said["tap" if taps else "path"])
        return
    connection = socket.socket(fileno=given[0])
    (keep if taps is None else taps.keep)(connection, given[1], **messages.content_of(given[2]))


def _close(descriptors: Iterable[int]) -> None:
    for each in descriptors:
        os.close(each)


def main(orders: socket.socket) -> None:
    """Takes orders on a socket; only the end of the caller ends it."""
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in RESET[:3]:
        signal.signal(number, signal.SIG_IGN)
    become_subreaper()
    orders.setblocking(False)
    gc.disable()
    gc.freeze()
    Nursery(orders).work()


if __name__ == "__main__":
    for name in PACKAGES:
        del sys.modules[name]
    sys.path[:] = json.loads(sys.argv[1])
    main(socket.socket(fileno=ORDERS))
