"""The caller's side of the nursery: orders for keepers."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.kernel import is_ready
from generated_vmm.process.program import Descriptor
from generated_vmm.transport.connection import start_over_in_children

PROGRAM = Path(__file__).with_name("keeper") / "nursery.py"
NETWORK = "/proc/thread-self/ns/net"


class Nursery:
    """The nursery of this process, started at the first order.

    Safe to share between threads, but not for signal handlers.
    """

    def __init__(self) -> None:
        self.program = PROGRAM
        self.pid: int | None = None
        self._orders: socket.socket | None = None
        self._lock = threading.Lock()
        self._namespace: list[int] = []
        start_over_in_children(self)

    def order(self, what: Mapping[str, Any], content: Mapping[str, Any]) -> socket.socket:
        """Orders a keeper; this process's end of the connection to it. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                file, caller = in_memory(content), Descriptor(os.pidfd_open(os.getpid()))
                given = [theirs.fileno(), caller.number, file.number]
                namespace = Descriptor(os.open(NETWORK, os.O_RDONLY))
                with self._lock:
                    if self._orders is None or is_ready(self._orders.fileno(), 0):
                        self._orders = self._start()
                    if list(_namespace()) != self._namespace:
                        given.append(namespace.number)
                    messages.send(self._orders, what, given)  # else the connection ends
            return ours
        except BaseException:
            ours.close()
            raise

    def _start(self) -> socket.socket:
        """Starts a nursery, in place of one that was killed."""
        self._drop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, open(os.devnull, "r+") as nothing:
                self._namespace = list(_namespace())
                argv = [sys.executable, "-I", "-S", str(self.program), json.dumps(sys.path)]
                self.pid = _spawn(argv, [*[nothing.fileno()] * 3, theirs.fileno()])
            caller = Descriptor(os.pidfd_open(os.getpid()))
            socket.send_fds(ours, [b'{"word": "caller"}'], [caller.number])
            return ours
        except BaseException:
            ours.close()
            raise

    def _drop(self) -> None:
        if self._orders is not None:
            self._orders.close()
        if self.pid is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, os.WNOHANG)
        self._orders = self.pid = None

    def start_over(self) -> None:
        """Drops the nursery in a forked process: it belongs to the parent."""
        self._lock = threading.Lock()
        self._drop()


def in_memory(content: object) -> Descriptor:
    """A file in memory with content that may be longer than a message: environments are."""
    file = Descriptor(os.memfd_create("order"))
    with open(os.dup(file.number), "w") as writing:
        json.dump(content, writing)
    return file


def _namespace() -> tuple[int, int]:
    """The identity of this thread's network namespace."""
    found = os.stat(NETWORK)
    return found.st_dev, found.st_ino


def _spawn(argv: list[str], descriptors: list[int]) -> int:
    """Starts a program with these descriptors as its first ones, in a session of its own."""
    with contextlib.ExitStack() as stack:
        actions: list[Any] = []
        for theirs, mine in enumerate(descriptors):
            above = fcntl.fcntl(mine, fcntl.F_DUPFD_CLOEXEC, len(descriptors))
            stack.callback(os.close, above)
            actions.append((os.POSIX_SPAWN_DUP2, above, theirs))
        for name in os.listdir("/proc/self/fd"):  # such as a server's listening socket
            with contextlib.suppress(OSError):  # closed meanwhile
                if int(name) >= len(descriptors) and os.get_inheritable(int(name)):
                    actions.append((os.POSIX_SPAWN_CLOSE, int(name)))
        return os.posix_spawn(argv[0], argv, os.environ, file_actions=actions, setsid=True)


NURSERY = Nursery()
