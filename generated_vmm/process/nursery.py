"""The caller's side of the nursery: asks for keepers, and gives them orders."""

from __future__ import annotations

import contextlib
import errno
import json
import marshal
import os
import socket
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.kernel import LONGEST_END, Descriptor, identity, is_ready, spawn
from generated_vmm.transport.connection import start_over_in_children

PROGRAM = Path(__file__).with_name("keeper") / "nursery.py"
NETWORK = "/proc/thread-self/ns/net"
ATTEMPTS = 3  # a keeper may have been killed before its order, or its fork refused at that time


class Nursery:
    """The nursery of this process, started at the first order.

    Safe to share between threads, but not for signal handlers.
    """

    def __init__(self) -> None:
        self.pid: int | None = None
        self._pidfd: Descriptor | None = None
        self._asking: Descriptor | None = None  # ends with the nursery
        self._offered: Descriptor | None = None
        self._home: list[int] = []  # its network namespace
        self._lock = threading.Lock()
        start_over_in_children(self)

    def start_over(self) -> None:
        """Drops the nursery, in a forked process: it belongs to the parent."""
        self._lock = threading.Lock()
        self.pid = self._pidfd = self._asking = self._offered = None

    def keeper(self, kind: str, *names: str) -> socket.socket:
        """The connection to a keeper that waits for an order of this kind. Raises OSError."""
        code = errno.ECHILD
        with self._lock:
            for _ in range(ATTEMPTS):
                with self._next_keeper(kind, *names) as connection:
                    words, _ = messages.receive(connection) or (["none", str(errno.ECHILD)], [])
                    if words[0] == "none":
                        code = int(words[1])
                    elif not is_ready(connection.fileno()):  # at its end
                        connection.settimeout(None)
                        return connection.dup()
        raise OSError(code, os.strerror(code))

    def order(self, connection: socket.socket, kind: str, **given: Descriptor) -> None:
        """Gives a keeper its order. Raises OSError."""
        named = {**given, **self._elsewhere()}
        if not messages.send(connection, kind, *named, given=[at.number for at in named.values()]):
            raise ChildProcessError(errno.ECHILD, os.strerror(errno.ECHILD))

    def _next_keeper(self, *noted: str) -> socket.socket:
        """The connection to the keeper that was asked for in advance; asks for another one."""
        if self._asking is None or self._offered is None or is_ready(self._asking.number):
            self._asking = self._start()
            self._offered = _asked_for(self._asking)
        given = self._elsewhere().values()
        offered, self._offered = self._offered, _asked_for(self._asking, *noted, given=given)
        connection = socket.socket(fileno=os.dup(offered.number))
        connection.settimeout(LONGEST_END)
        return connection

    def _elsewhere(self) -> dict[str, Descriptor]:
        """The network namespace of this thread, if the nursery is in another one."""
        namespace = Descriptor(os.open, NETWORK, os.O_RDONLY)
        return {} if identity(namespace.number) == self._home else {"namespace": namespace}

    def _start(self) -> Descriptor:
        """Starts a nursery, in place of one that was killed; the connection for requests."""
        if self._pidfd is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self._pidfd.number, os.WEXITED | os.WNOHANG)
        caller, (ours, theirs) = Descriptor(os.pidfd_open, os.getpid()), messages.pair()
        path = json.dumps([*map(os.fspath, sys.path)])
        with ours, theirs, open(os.devnull, "r+") as nothing:
            given = [*[nothing.fileno()] * 3, theirs.fileno(), caller.number]
            self.pid = spawn([sys.executable, "-I", "-S", str(PROGRAM), path], os.environ, given)
            self._pidfd = Descriptor(os.pidfd_open, self.pid)
            with Descriptor(os.open, NETWORK, os.O_RDONLY) as namespace:
                self._home = identity(namespace.number)
            return Descriptor(os.dup, ours.fileno())


def _asked_for(asking: Descriptor, *noted: str, given: Iterable[Descriptor] = ()) -> Descriptor:
    """Asks for a keeper, and says what the one before keeps; the connection to the new one."""
    (ours, theirs), numbers = messages.pair(), [each.number for each in given]
    with ours, theirs, socket.socket(fileno=os.dup(asking.number)) as requests:
        requests.settimeout(LONGEST_END)
        messages.send(requests, "keeper", *noted, given=[theirs.fileno(), *numbers])
        return Descriptor(os.dup, ours.fileno())


def in_memory(content: object) -> Descriptor:
    """A file in memory with content that may be longer than a message: environments are.

    The caller's own keeper reads it, with the same Python. `marshal` is code of C: a keeper that
    reads JSON has 0.1 MiB more memory of its own.
    """
    file = Descriptor(os.memfd_create, "order")
    with open(f"/proc/self/fd/{file.number}", "wb") as writing:
        marshal.dump(json.loads(json.dumps(content, default=vars)), writing)
    return file


NURSERY = Nursery()
