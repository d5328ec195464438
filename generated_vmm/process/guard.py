"""The caller's side of the warden: one such program for each process that starts monitors."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import socket
import sys
import threading
from pathlib import Path

from generated_vmm.process import warden
from generated_vmm.process.errors import MonitorStartError
from generated_vmm.process.spawn import spawn
from generated_vmm.process.warden import Leftovers

PROGRAM = Path(warden.__file__)
LONGEST_START = 30.0  # seconds


class Guard:
    """Sees to it that monitors end with this process. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: socket.socket | None = None
        self._kept: dict[str, tuple[int | None, Leftovers]] = {}

    def keep(self, pidfd: int | None, leftovers: Leftovers, key: str | None = None) -> str:
        """Entrusts a process and its files to the warden until `release` with the key returned.

        Before there is a process, its files alone. With a key it takes the place of what was
        entrusted with it. Raises `MonitorStartError`
        when there is no warden to be had.
        """
        key = key or secrets.token_hex(8)
        with self._lock:
            self._kept[key] = (pidfd, leftovers)
            try:
                self._entrust(key)
            except BaseException:
                del self._kept[key]
                raise
        return key

    def release(self, key: str) -> None:
        """Takes a process back, before its pidfd is closed."""
        with self._lock:
            self._kept.pop(key, None)
            if self._orders is not None:
                with contextlib.suppress(OSError):
                    self._orders.send(warden.order(key, None))

    def _entrust(self, key: str) -> None:
        """Tells the warden of a process; of all of them when a new warden had to be started."""
        if self._orders is not None:
            with contextlib.suppress(OSError):
                return self._tell(self._orders, key)
            self._orders.close()
        self._orders = _start_warden()
        for each in self._kept:
            self._tell(self._orders, each)

    def _tell(self, orders: socket.socket, key: str) -> None:
        pidfd, leftovers = self._kept[key]
        pidfds = [] if pidfd is None else [pidfd]
        socket.send_fds(orders, [warden.order(key, leftovers)], pidfds)

    def forget(self) -> None:
        """Lets go of the warden in a forked process: it and its monitors are the parent's."""
        self._lock = threading.Lock()
        self._kept.clear()
        self.close()

    def close(self) -> None:
        """Ends the warden, and with it the monitors that are left."""
        if self._orders is not None:
            self._orders.close()
            self._orders = None


def _start_warden() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with theirs, open(os.devnull, "w") as nothing:
            words = [sys.executable, "-I", "-S", str(PROGRAM), str(os.getpid())]
            spawn(words, os.environ, (theirs.fileno(), nothing.fileno(), nothing.fileno()))
        ours.settimeout(LONGEST_START)
        if ours.recv(len(warden.READY)) != warden.READY:
            raise MonitorStartError(f"{sys.executable} did not run {PROGRAM}")
    except BaseException as error:
        ours.close()
        if isinstance(error, OSError):
            raise MonitorStartError(f"no warden with {sys.executable}: {error}") from error
        raise
    return ours


GUARD = Guard()
atexit.register(GUARD.close)
os.register_at_fork(after_in_child=GUARD.forget)
