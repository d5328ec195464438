"""Removing folders and ending processes that others may change meanwhile.

For the reaper too: the standard library alone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import socket
import time
from collections.abc import Callable

LONGEST_END = 30.0  # seconds for a killed process to free its memory
LONGEST_POLL = 2**31 - 1  # milliseconds, 24 days
PAUSE = 0.005  # seconds between two checks
HELD = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
STARTED = 19  # field of /proc/PID/stat after the name (proc(5))

# Folders


def identity(path: str, folder: int | None = None) -> list[int]:
    """The device and the inode at a path."""
    found = os.stat(path, dir_fd=folder)
    return [found.st_dev, found.st_ino]


def lock(descriptor: int) -> bool:
    """Whether the folder is locked by this descriptor, or by one that it was copied from."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def has_mounts(folder: int) -> bool:
    """Whether a file system is mounted in a folder, whose files are not ours to remove."""
    below = os.readlink(f"/proc/self/fd/{folder}") + "/"
    with open("/proc/self/mountinfo", errors="surrogateescape") as mounts:
        points = [line.split()[4].replace("\\040", " ") for line in mounts]
    return any(point.startswith(below) for point in points)


def remove_entries(folder: int, keep: str) -> None:
    """Removes the content of a folder except `keep`, at any depth, without following links.

    Subfolders are moved up before they are emptied: a deep tree exhausts neither stack nor
    descriptors.
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
    """Whether an entry is gone now; false for a folder that is not empty."""
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
        with contextlib.suppress(OSError):  # it is gone, or no longer empty
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if os.path.samestat(found, os.fstat(descriptor)):
                os.rmdir(name, dir_fd=parent)
    finally:
        os.close(parent)


def is_served(socket_path: str) -> bool:
    """Whether a process listens on a unix socket."""
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
    """A pidfd, which names the process even after another process got its number."""
    try:
        return os.pidfd_open(pid)
    except (ProcessLookupError, FileNotFoundError):  # the second since Linux 6.15
        return None


def send(pidfd: int, number: signal.Signals | None) -> bool:
    """Sends a signal, if there is one and the process has not ended; else closes the pidfd."""
    if number is not None and not is_ready(pidfd, 0):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, number)
            return True
    os.close(pidfd)
    return False


def kill_all(kill: Callable[[], list[int]]) -> None:
    """Kills processes until there are none. Raises TimeoutError if one does not end."""
    deadline = time.monotonic() + LONGEST_END
    while pidfds := kill():
        for pidfd in pidfds:
            is_ready(pidfd, max(0, deadline - time.monotonic()))
            os.close(pidfd)
        if time.monotonic() >= deadline:
            raise TimeoutError("a process has been killed and does not end")


def kill_group(group: int) -> list[int]:
    """Kills the processes of a control group; pidfds of those that have not ended yet."""
    with contextlib.suppress(OSError):  # version 1, or Linux before 5.14
        _write(group, "cgroup.kill", b"1")  # also what forks meanwhile
    pidfds = {pid: open_pidfd(pid) for pid in _pids_in(group)}
    members = _pids_in(group)  # another process may have got a number before its pidfd was opened
    return [
        pidfd
        for pid, pidfd in pidfds.items()
        if pidfd is not None and send(pidfd, signal.SIGKILL if pid in members else None)
    ]


def _write(folder: int, name: str, content: bytes) -> None:
    file = os.open(name, os.O_WRONLY, dir_fd=folder)
    try:
        os.write(file, content)
    finally:
        os.close(file)


def _pids_in(group: int) -> set[int]:
    try:
        with open(os.open("cgroup.procs", os.O_RDONLY, dir_fd=group)) as file:
            return {int(pid) for pid in file}
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):  # the group was removed
            raise
        return set()


def start_time_of(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot; None if it is gone."""
    fields = fields_of(pid)
    return None if fields is None else int(fields[STARTED])


def fields_of(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat after the process's name; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_ready(descriptor: int, seconds: float | None) -> bool:
    """Whether a descriptor becomes readable in time; a pidfd does at the end of its process."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else min(seconds * 1000, LONGEST_POLL)))
