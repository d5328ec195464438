"""The caller's side of the nursery: orders keepers."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
import threading
from pathlib import Path

from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.kernel import LONGEST_END, Descriptor, is_ready, spawn
from generated_vmm.transport.connection import start_over_in_children

PROGRAM = Path(__file__).with_name("keeper") / "nursery.py"
NETWORK = "/proc/thread-self/ns/net"


class Nursery:
    """The nursery of this process, started at the first order.

    Safe to share between threads, but not for signal handlers.
    """

    def __init__(self) -> None:
        self.pid: int | None = None
        self._pidfd: Descriptor | None = None
        self._orders: Descriptor | None = None
        self._lock = threading.Lock()
        start_over_in_children(self)

    def start_over(self) -> None:
        """Drops the nursery, in a forked process: it belongs to the parent."""
        self._lock = threading.Lock()
        self._orders = self._pidfd = self.pid = None

    def order(self, kind: str, *names: str, content: object) -> socket.socket:
        """The connection to a keeper that gets this order. Raises OSError."""
        namespace, order = Descriptor(os.open, NETWORK, os.O_RDONLY), messages.in_memory(content)
        connection, theirs = messages.pair()
        given = [theirs.fileno(), namespace.number, order.number]
        with theirs, contextlib.ExitStack() as undo:
            undo.enter_context(connection)
            with self._lock:
                if self._orders is None or self._pidfd is None or is_ready(self._pidfd.number):
                    self._orders = self._start()
                with socket.socket(fileno=os.dup(self._orders.number)) as orders:
                    orders.settimeout(LONGEST_END)
                    if not messages.send(orders, kind, *names, given=given):
                        raise OSError(errno.ECHILD, os.strerror(errno.ECHILD))
            undo.pop_all()
        return connection

    def _start(self) -> Descriptor:
        """Starts a nursery, in place of one that was killed; the end for orders."""
        if self._pidfd is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self._pidfd.number, os.WEXITED | os.WNOHANG)
        caller, (ours, theirs) = Descriptor(os.pidfd_open, os.getpid()), messages.pair()
        path = json.dumps([*map(os.fspath, sys.path)])
        with ours, theirs, open(os.devnull, "r+") as nothing:
            given = [*[nothing.fileno()] * 3, theirs.fileno(), caller.number]
            self.pid = spawn([sys.executable, "-I", "-S", str(PROGRAM), path], os.environ, given)
            self._pidfd = Descriptor(os.pidfd_open, self.pid)
            return Descriptor(os.dup, ours.fileno())


NURSERY = Nursery()
