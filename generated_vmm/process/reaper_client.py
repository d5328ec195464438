"""The caller's side of the reaper: one such program for each process that owns monitors."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from generated_vmm.process import reaper
from generated_vmm.process.child import Child, begin
from generated_vmm.process.errors import MonitorStartError
from generated_vmm.process.things import Ward
from generated_vmm.transport.connection import start_over_in_children

PROGRAM = Path(reaper.__file__)
LONGEST_START = 30.0  # seconds
PAUSE = 0.1  # seconds between two attempts to start another one


@dataclass(frozen=True)
class Reaper:
    """A running reaper, and the socket for its orders."""

    child: Child
    orders: socket.socket

    def entrust(self, key: str, ward: Ward | None) -> None:
        """Entrusts things to it; None takes them back. Raises OSError if it has died."""
        descriptors = [each for _, each in ward or () if each is not None]
        socket.send_fds(self.orders, [reaper.order(key, ward)], descriptors)

    def close(self) -> None:
        """Ends it, and with it the monitors that are left."""
        self.orders.close()


class ReaperClient:
    """Removes what monitors own when this process dies.

    Safe to share between threads, but not for signal handlers: the threads of monitors call it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reaper: Reaper | None = None
        self._wards: dict[str, Ward] = {}

    def entrust(self, key: str, ward: Ward) -> None:
        """Entrusts things to the reaper, in place of those it had with this key, until `release`.

        Raises `MonitorStartError` if no reaper can be started.
        """
        with self._lock:
            self._wards[key] = list(ward)
            try:
                self._tell(key)
            except OSError:  # it has just died; its watcher starts another one
                self._renew()

    def release(self, key: str) -> None:
        """Takes things back, before their descriptors are closed."""
        with self._lock:
            if self._wards.pop(key, None) is not None and self._reaper is not None:
                with contextlib.suppress(OSError):
                    self._reaper.entrust(key, None)

    def _tell(self, key: str) -> None:
        if self._reaper is None:
            self._renew()
        else:
            self._reaper.entrust(key, self._wards[key])

    def _renew(self) -> None:
        """Starts a reaper, and tells it of everything."""
        if self._reaper is not None:
            self._reaper.close()
        self._reaper = _start_reaper()
        for key, ward in self._wards.items():
            self._reaper.entrust(key, ward)
        threading.Thread(
            target=self._watch, args=[self._reaper], name="monitor-reaper", daemon=True
        ).start()

    def _watch(self, watched: Reaper) -> None:
        """Waits for a reaper's end, and starts another one if it is still needed."""
        watched.child.wait(None)
        watched.child.close()
        while not self._is_replaced(watched):
            time.sleep(PAUSE)

    def _is_replaced(self, ended: Reaper) -> bool:
        """Starts another reaper in place of one that has ended; false if none can be started."""
        with self._lock, contextlib.suppress(MonitorStartError):
            if self._reaper is ended and self._wards:
                self._renew()
            return True
        return False

    def start_over(self) -> None:
        """Drops the reaper in a forked process: it and its monitors belong to the parent."""
        self._lock = threading.Lock()
        self._wards = {}
        self.close()

    def close(self) -> None:
        """Ends the reaper, and with it the monitors that are left."""
        ended, self._reaper = self._reaper, None
        if ended is not None:
            ended.close()


def _start_reaper() -> Reaper:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with theirs, open(os.devnull, "w") as nothing:
            program = [sys.executable, "-I", "-S", str(PROGRAM)]
            argv = [*program, str(os.getpid()), json.dumps(sys.path)]
            given = (theirs.fileno(), nothing.fileno(), nothing.fileno())
            started = Reaper(begin(argv, os.environ, given), ours)
    except OSError as error:
        ours.close()
        raise MonitorStartError(f"no reaper with {sys.executable}: {error}") from error
    ours.settimeout(LONGEST_START)
    with contextlib.suppress(OSError):
        if ours.recv(len(reaper.READY)) == reaper.READY:
            return started
    started.close()
    started.child.send_signal(signal.SIGKILL)
    started.child.wait(None)
    started.child.close()
    raise MonitorStartError(f"{sys.executable} did not run {PROGRAM}")


REAPER = ReaperClient()
atexit.register(REAPER.close)
start_over_in_children(REAPER)
