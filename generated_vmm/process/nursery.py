"""The caller's side of the nursery: orders for keepers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.kernel import Descriptor, is_ready, spawn
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

    def order(self, owner: socket.socket, what: Mapping[str, Any], *content: Descriptor) -> None:
        """Orders a keeper, which gets this end of a connection to its owner. Raises OSError."""
        namespace = Descriptor(os.open, NETWORK, os.O_RDONLY)
        given = [owner.fileno(), *(each.number for each in (namespace, *content))]
        with self._lock:
            if self._orders is None or self._pidfd is None or is_ready(self._pidfd.number):
                self._orders = self._start()
            with messages.connection_of(self._orders) as orders:
                messages.send(orders, what, given)  # else the connection to the owner ends

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
