"""The caller's side of the nursery: takes the keepers that it offers, and gives them orders."""

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
ATTEMPTS = 3  # an offered keeper may have been killed, or its fork refused at that time


class Nursery:
    """The nursery of this process, started at the first order.

    Safe to share between threads, but not for signal handlers.
    """

    def __init__(self) -> None:
        self.pid: int | None = None
        self._pidfd: Descriptor | None = None
        self._offers: Descriptor | None = None
        self._lock = threading.Lock()
        start_over_in_children(self)

    def start_over(self) -> None:
        """Drops the nursery, in a forked process: it belongs to the parent."""
        self._lock = threading.Lock()
        self._offers = self._pidfd = self.pid = None

    def order(self, kind: str, *names: str, content: object) -> socket.socket:
        """The connection to a keeper that has this order. Raises OSError."""
        namespace, order = Descriptor(os.open, NETWORK, os.O_RDONLY), messages.in_memory(content)
        given, code = [namespace.number, order.number], errno.ECHILD
        with self._lock:
            for _ in range(ATTEMPTS):
                words, offered = self._next_offer()
                if not offered:
                    code = int(words[1])
                    continue
                connection = socket.socket(fileno=os.dup(offered[0].number))
                if messages.send(connection, kind, *names, given=given):
                    return connection
                connection.close()
        raise OSError(code, os.strerror(code))

    def _next_offer(self) -> messages.Received:
        """Asks for another offer, and takes the one that was made in advance."""
        if self._offers is None or self._pidfd is None or is_ready(self._pidfd.number):
            self._offers = self._start()
        with socket.socket(fileno=os.dup(self._offers.number)) as offers:
            offers.settimeout(LONGEST_END)
            messages.send(offers, "next")
            received = messages.receive(offers)
        if received is None:
            self._offers = None  # it was killed
        return received or (["none", str(errno.ECHILD)], [])

    def _start(self) -> Descriptor:
        """Starts a nursery, in place of one that was killed; the end for its offers."""
        if self._pidfd is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self._pidfd.number, os.WEXITED | os.WNOHANG)
        ours, theirs = messages.pair()
        path = json.dumps([*map(os.fspath, sys.path)])
        with ours, theirs, open(os.devnull, "r+") as nothing:
            given = [*[nothing.fileno()] * 3, theirs.fileno()]
            self.pid = spawn([sys.executable, "-I", "-S", str(PROGRAM), path], os.environ, given)
            self._pidfd = Descriptor(os.pidfd_open, self.pid)
            return Descriptor(os.dup, ours.fileno())


NURSERY = Nursery()
