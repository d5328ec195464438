"""A program that ends what its caller leaves behind: `python warden.py CALLER_PID`, orders on 0.

It is told of each monitor with a pidfd, and of the files that go with it. When the caller has died,
by whatever signal, it kills the monitors that are left, waits for their end and removes the files.
It runs by its path, with the standard library alone, so that it is small and starts quickly.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

LONGEST_ORDER = 65_536
LONGEST_END = 30.0  # seconds that a killed process gets to give its memory back
LONGEST_POLL = 2**31 - 1  # milliseconds, 24 days
READY = b"ready"


@dataclass(frozen=True)
class Leftovers:
    """What is to be removed after a monitor's end: sockets, files, whole trees, empty folders."""

    sockets: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    trees: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    def remove(self) -> None:
        """Removes what is there.

        A socket on which somebody listens is another's; a tree in which something is mounted has
        files that are.
        """
        for name in [*(name for name in self.sockets if not is_served(name)), *self.files]:
            with contextlib.suppress(OSError):
                os.unlink(name)
        for name in self.trees:
            if not has_mounts_below(name):
                shutil.rmtree(name, ignore_errors=True)
        for name in self.folders:
            with contextlib.suppress(OSError):
                os.rmdir(name)


def is_served(socket_path: str) -> bool:
    """Whether somebody listens on a unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            connection.connect(socket_path)
        except BlockingIOError:  # its queue is full
            return True
        except (OSError, ValueError):
            return False
        return True


def has_mounts_below(folder: str) -> bool:
    """Whether a file system is mounted in a folder, whose files are not ours to remove."""
    below = os.path.realpath(folder) + "/"
    mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    points = (line.split()[4].replace("\\040", " ") for line in mounts)
    return any(point.startswith(below) for point in points)


def order(key: str, leftovers: Leftovers | None) -> bytes:
    """The message that entrusts a monitor to the warden; None takes it away again."""
    message = json.dumps({"key": key, "leftovers": leftovers and asdict(leftovers)}).encode()
    if len(message) > LONGEST_ORDER:
        raise ValueError("the paths of the monitor's files are too long")
    return message


@dataclass(frozen=True)
class Ward:
    """A monitor's process, None before there is one, and what goes with it."""

    pidfd: int | None
    leftovers: Leftovers

    def end(self) -> None:
        """Kills the process, waits until it is gone, and removes what it leaves."""
        if self.pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            is_ready(self.pidfd, LONGEST_END)
        self.leftovers.remove()


def is_ready(descriptor: int, seconds: float | None) -> bool:
    """Whether a descriptor can be read from within the time; a pidfd can after its end."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else min(seconds * 1000, LONGEST_POLL)))


def main(caller_pid: int, orders: socket.socket) -> None:
    """Takes orders until the caller has died, then ends what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wards: dict[str, Ward] = {}
    caller = _pidfd_of_parent(caller_pid)
    with contextlib.suppress(OSError):
        orders.send(READY)
    while _is_ordered(orders, caller) and _take_order(orders, wards):
        pass
    for ward in wards.values():
        ward.end()


def _pidfd_of_parent(pid: int) -> int | None:
    """The caller's pidfd; None when it has died already and the number may be another's."""
    try:
        found = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    return found if os.getppid() == pid else None


def _is_ordered(orders: socket.socket, caller: int | None) -> bool:
    """Waits for an order; false when the caller has died and all its orders are taken."""
    waiting = select.poll()
    waiting.register(orders, select.POLLIN)
    if caller is not None:
        waiting.register(caller, select.POLLIN)
    ready = waiting.poll(None if caller is not None else 0)
    return any(descriptor == orders.fileno() for descriptor, _ in ready)


def _take_order(orders: socket.socket, wards: dict[str, Ward]) -> bool:
    """Carries one order out; false when there will be no other."""
    try:
        message, pidfds, _, _ = socket.recv_fds(orders, LONGEST_ORDER, 1)
    except ConnectionError:
        return False
    if not message:
        return False
    value = json.loads(message)
    taken_away = wards.pop(value["key"], None)
    if taken_away is not None and taken_away.pidfd is not None:
        os.close(taken_away.pidfd)
    if value["leftovers"] is not None:
        pidfd = pidfds[0] if pidfds else None
        wards[value["key"]] = Ward(pidfd, Leftovers(**value["leftovers"]))
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), socket.socket(fileno=0))
