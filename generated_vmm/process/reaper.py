"""The reaper: a program that removes what a caller leaves behind, and how each thing is removed.

`python reaper.py CALLER_PID SYS_PATH` takes orders on descriptor 0. It is told of each thing before
the thing is made, and gets the descriptors that name it. When the caller has died, by whatever
signal, it removes what is left. It runs by its path, with the standard library alone, so that it
is small and starts quickly.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import os
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

LONGEST_ORDER = 65_536
LONGEST_END = 30.0  # seconds that a killed process gets to give its memory back
LONGEST_POLL = 2**31 - 1  # milliseconds, 24 days
PAUSE = 0.005  # seconds between two looks at what is about to go
READY = b"ready"
STATE, NEW_STATE = "monitor.json", "monitor.new"
HELD = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
STARTED = 19  # field of /proc/PID/stat after the name (proc(5))


@dataclass(frozen=True)
class EmptyFolder:
    """A folder that is about to be made, or that others may use too: removed if it is empty."""

    path: str

    def remove(self, _: int | None = None) -> None:
        """Removes the folder unless something is in it."""
        with contextlib.suppress(OSError):
            os.rmdir(self.path)


@dataclass(frozen=True)
class Folder:
    """A folder that is held open and locked, removed through that descriptor.

    All of it goes if it is `whole`, else the fifos, the sockets and the state of those `names`.
    The folder itself goes if it was `made`. `entry` is a symbolic link that leads to it.
    """

    path: str
    names: list[str]
    whole: bool
    made: bool
    entry: str

    def remove(self, descriptor: int | None) -> None:
        """Removes what is there, unless the lock was lost or something is mounted in it."""
        if descriptor is None or not lock(descriptor):
            return
        if self.whole and has_mounts(descriptor):
            return
        if self.whole:
            remove_entries(descriptor, keep=STATE)
        for name in (*self.names, NEW_STATE, STATE):
            with contextlib.suppress(FileNotFoundError):
                if self.whole or is_ours(name, descriptor):
                    os.unlink(name, dir_fd=descriptor)
        if self.made:
            with contextlib.suppress(FileNotFoundError):
                remove_folder(self.path, descriptor)
        with contextlib.suppress(OSError):
            if os.readlink(self.entry) == self.path:
                os.unlink(self.entry)


@dataclass(frozen=True)
class Session:
    """The processes of a session, known by its first process and when that was started.

    With a `root` (device and inode), also those that have this folder as their root: a jailer that
    makes a PID namespace makes another session too.
    """

    leader: int
    start_time: int
    root: list[int] | None = None

    def has(self, pid: int) -> bool:
        """Whether a process is one of them."""
        with contextlib.suppress(OSError):
            if os.getsid(pid) == self.leader:
                return start_time_of(self.leader) in (None, self.start_time)
            return self.root is not None and identity(f"/proc/{pid}/root") == self.root
        return False

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in numbers if self.has(pid)]

    def kill(self) -> list[int]:
        """Kills every process; pidfds of those that have not ended yet."""
        killed = []
        for pid in self.pids():
            pidfd = open_pidfd(pid)
            # and not another that has the number now
            if pidfd is not None and send(pidfd, signal.SIGKILL if self.has(pid) else None):
                killed.append(pidfd)
        return killed

    def remove(self, _: int | None = None) -> None:
        """Kills the processes and waits for their end. TimeoutError when one does not end."""
        kill_all(self.kill)


@dataclass(frozen=True)
class ControlGroup:
    """A control group that was made for one monitor; `known` is its identity once it is there."""

    path: str
    known: list[int] | None = None

    def kill(self) -> list[int]:
        """Kills what is in the group; pidfds of the processes that have not ended yet."""
        with contextlib.suppress(FileNotFoundError), open(f"{self.path}/cgroup.procs") as file:
            pidfds = [pidfd for pid in file if (pidfd := open_pidfd(int(pid))) is not None]
            return [pidfd for pidfd in pidfds if send(pidfd, signal.SIGKILL)]
        return []

    def remove(self, _: int | None = None) -> None:
        """Removes the group, and kills what is in it if it is known to be the same one."""
        deadline = time.monotonic()
        with contextlib.suppress(FileNotFoundError):
            if identity(self.path) == self.known:
                kill_all(self.kill)
                deadline += 1.0  # what has just ended is counted for some time
        while not removed(self.path) and time.monotonic() < deadline:
            time.sleep(PAUSE)


@dataclass(frozen=True)
class Socket:
    """A unix socket outside of the monitor's folder; nothing was there before."""

    path: str

    def remove(self, _: int | None = None) -> None:
        """Removes the socket if it is one of this user's on which nobody listens."""
        with contextlib.suppress(OSError):
            found = os.lstat(self.path)
            ours = stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid()
            if ours and not is_served(self.path):
                os.unlink(self.path)


@dataclass(frozen=True)
class Network:
    """A part of the host's network, as `generated_vmm.process.network` knows it."""

    what: dict[str, Any]

    def remove(self, _: int | None = None) -> None:
        """Removes it, by that module: it needs more than the standard library."""
        importlib.import_module("generated_vmm.process.network").remove(self.what)


Thing: TypeAlias = EmptyFolder | Folder | Session | ControlGroup | Socket | Network
Ward: TypeAlias = list[tuple[Thing, int | None]]
KINDS: dict[str, Callable[..., Thing]] = {
    kind.__name__: kind for kind in (EmptyFolder, Folder, Session, ControlGroup, Socket, Network)
}


def in_json(thing: Thing) -> list[Any]:
    """A thing without its descriptor, in a form for JSON."""
    return [type(thing).__name__, asdict(thing)]


def from_json(written: list[Any]) -> Thing:
    """The thing that was written so."""
    kind, fields = written
    return KINDS[kind](**fields)


def remove_all(ward: Ward) -> None:
    """Removes processes, then the other things, the last made first.

    TimeoutError when a process does not end; what could not be removed stays in the list.
    """
    ward.sort(key=lambda owned: isinstance(owned[0], Session))
    while ward:
        thing, descriptor = ward[-1]
        thing.remove(descriptor)
        ward.pop()


# Folders


def identity(path: str, folder: int | None = None) -> list[int]:
    """The device and the inode of what is at a path."""
    found = os.stat(path, dir_fd=folder)
    return [found.st_dev, found.st_ino]


def lock(descriptor: int) -> bool:
    """Whether the folder is locked by this descriptor, or by one that it was copied from."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_ours(name: str, folder: int) -> bool:
    """Whether an entry is of a kind that monitors make, rather than somebody's file."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or name in (STATE, NEW_STATE)


def has_mounts(folder: int) -> bool:
    """Whether a file system is mounted in a folder, whose files are not ours to remove."""
    below = os.readlink(f"/proc/self/fd/{folder}") + "/"
    with open("/proc/self/mountinfo", errors="surrogateescape") as mounts:
        points = [line.split()[4].replace("\\040", " ") for line in mounts]
    return any(point.startswith(below) for point in points)


def remove_entries(folder: int, keep: str) -> None:
    """Removes what is in a folder but `keep`, however deep and whatever links there are.

    A folder in it is emptied by moving the folders that it has up, so that a tree which somebody
    made deep on purpose exhausts neither the stack nor the descriptors.
    """
    unique, number = os.urandom(8).hex(), 0
    while names := [name for name in os.listdir(folder) if name != keep]:
        for name in names:
            if removed(name, folder):
                continue
            inner = os.open(name, HELD, dir_fd=folder)
            try:
                for each in os.listdir(inner):
                    if not removed(each, inner):
                        os.rename(each, f"{unique}{number}", src_dir_fd=inner, dst_dir_fd=folder)
                        number += 1
            finally:
                os.close(inner)


def removed(name: str, folder: int | None = None) -> bool:
    """Whether an entry is gone now; false for a folder in which something is."""
    with contextlib.suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=folder)
        except (IsADirectoryError, PermissionError):  # cgroupfs says the second
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError:
                return False
    return True


def remove_folder(path: str, descriptor: int) -> None:
    """Removes an empty folder if it is still the one of the descriptor."""
    parent = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        name = os.path.basename(path)
        with contextlib.suppress(OSError):  # it is gone, or somebody has put something there
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if os.path.samestat(found, os.fstat(descriptor)):
                os.rmdir(name, dir_fd=parent)
    finally:
        os.close(parent)


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


# Processes


def open_pidfd(pid: int) -> int | None:
    """A pidfd, which names the process also after its number was given to another one."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def send(pidfd: int, number: signal.Signals | None) -> bool:
    """Sends a signal to a process that has not ended; closes the pidfd if there is none to send."""
    if number is not None and not is_ready(pidfd, 0):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, number)
            return True
    os.close(pidfd)
    return False


def kill_all(kill: Callable[[], list[int]]) -> None:
    """Kills processes until there are none. TimeoutError when one of them does not end."""
    deadline = time.monotonic() + LONGEST_END
    while pidfds := kill():
        for pidfd in pidfds:
            is_ready(pidfd, max(0, deadline - time.monotonic()))
            os.close(pidfd)
        if time.monotonic() >= deadline:
            raise TimeoutError("a process has been killed and does not end")


def start_time_of(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot; None when it is gone."""
    fields = fields_of(pid)
    return None if fields is None else int(fields[STARTED])


def fields_of(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat after the process's name; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_ready(descriptor: int, seconds: float | None) -> bool:
    """Whether a descriptor can be read from within the time; a pidfd can after its end."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else min(seconds * 1000, LONGEST_POLL)))


# The program


def order(key: str, ward: Ward | None) -> bytes:
    """The message that entrusts things, without their descriptors; None takes them away again."""
    things = None if ward is None else [[*in_json(thing), fd is not None] for thing, fd in ward]
    message = json.dumps([key, things]).encode()
    if len(message) > LONGEST_ORDER:
        raise ValueError("the paths of the monitor's files are too long")
    return message


def main(caller_pid: int, orders: socket.socket) -> None:
    """Takes orders until the caller has died, then removes what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wards: dict[str, Ward] = {}
    caller = open_pidfd(caller_pid)
    if os.getppid() != caller_pid:  # it has died, and the number may be another's
        caller = None
    with contextlib.suppress(OSError):
        orders.send(READY)
    while _is_ordered(orders, caller) and _take_order(orders, wards):
        pass
    for ward in wards.values():
        for thing, _ in ward:
            if isinstance(thing, Session):
                thing.kill()
    for ward in wards.values():
        with contextlib.suppress(Exception):
            remove_all(ward)


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
        message, descriptors, _, _ = socket.recv_fds(orders, LONGEST_ORDER, 64)
    except ConnectionError:
        return False
    if not message:
        return False
    key, things = json.loads(message)
    for _, descriptor in wards.pop(key, []):
        if descriptor is not None:
            os.close(descriptor)
    if things is not None:
        given = iter(descriptors)
        wards[key] = [(from_json(thing), next(given) if has else None) for *thing, has in things]
    return True


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[2])
    main(int(sys.argv[1]), socket.socket(fileno=0))
