"""Removing what a record names. One thing that cannot be removed does not keep the others."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import time
from collections.abc import Callable
from typing import TypeVar

from generated_vmm.process.keeper.folders import remove_folder, remove_parents
from generated_vmm.process.keeper.kernel import (
    FOLDER,
    PAUSE,
    identity,
    kill_group,
    mount_of,
    reason,
)
from generated_vmm.process.keeper.record import (
    NAMES,
    NEW_RECORD,
    RECORD,
    Group,
    Record,
    Socket,
    write_record,
)

Thing = TypeVar("Thing")
GROUP_SECONDS = 2.0  # for its processes to end, and to be counted no more
MOUNTED = "something is mounted there"
STALE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW


def remove(record: Record, folder: int, *, keeps_folder: bool = False) -> list[str]:
    """Removes everything that a record names; the result says what could not be removed, and why.

    What is left stays in the record, and the folder with it. The processes have ended.
    """
    left: list[str] = []
    record.groups = [each for each in record.groups if not is_gone(_remove_group, each, left)]
    record.sockets = [each for each in record.sockets if not is_gone(_remove_socket, each, left)]
    if record.jailed:
        remove_entries(folder, RECORD, record.path, left)
    for name in (*NAMES, NEW_RECORD) if not record.jailed else ():
        is_gone(_remove_own, (name, folder), left)
    if not left and not keeps_folder:
        is_gone(remove_folder, (record, folder), left)
    elif left or record.ended is not None:
        with contextlib.suppress(OSError):  # the record before says more than there is
            write_record(folder, record)
    return left


def is_gone(removal: Callable[[Thing], object], thing: Thing, left: list[str]) -> bool:
    """Whether a thing could be removed; else it says in the list why not."""
    try:
        removal(thing)
        return True
    except OSError as error:
        named = error.filename if isinstance(error.filename, str) else ""
        left.append(f"{getattr(thing, 'path', '') or named}: {reason(error)}")
        return False


def _remove_group(group: Group) -> None:
    """Removes a control group with its processes; one that may be another only if it is empty."""
    with contextlib.suppress(FileNotFoundError):
        _end_and_remove(group)
    remove_parents(group.path)


def _end_and_remove(group: Group) -> None:
    deadline = time.monotonic() + GROUP_SECONDS
    found = os.open(group.path, FOLDER)
    try:
        is_known = group.id is not None and identity(found) == group.id
        while is_known and not kill_group(found) and time.monotonic() < deadline:
            time.sleep(PAUSE)
    finally:
        os.close(found)
    while True:  # ended processes are counted for some time
        try:
            return os.rmdir(group.path)
        except OSError as error:
            if error.errno != errno.EBUSY or not is_known or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE)


def _remove_socket(thing: Socket) -> None:
    """Removes a socket if folder and name still lead to it."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        folder = os.open(thing.folder, STALE) if thing.held is None else os.dup(thing.held)
        try:
            found = os.stat(thing.name, dir_fd=folder, follow_symlinks=False)
            is_ours = identity(folder) == thing.folder_id and stat.S_ISSOCK(found.st_mode)
            if thing.id is None:  # the monitor has not told of it, so it has ended before
                is_ours &= not is_served(f"/proc/self/fd/{folder}/{thing.name}")
            if is_ours and thing.id in (None, [found.st_dev, found.st_ino]):
                os.unlink(thing.name, dir_fd=folder)
        finally:
            os.close(folder)


def is_served(path: str) -> bool:
    """Whether a process listens on a unix socket, of any type."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            connection.connect(path)
        except OSError as error:  # EPROTOTYPE: one of another type; EAGAIN: its queue is full
            return error.errno in (errno.EPROTOTYPE, errno.EAGAIN)
        return True


def _remove_own(place: tuple[str, int]) -> None:
    """Removes a fifo or a socket of a monitor from its folder, or a record that was begun."""
    name, folder = place
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or name == NEW_RECORD:
            os.unlink(name, dir_fd=folder)


def remove_entries(folder: int, keep: str, path: str, left: list[str]) -> None:
    """Removes the content of a folder except `keep`, at any depth, without following links.

    Subfolders are moved up before they are emptied: a deep tree exhausts neither stack nor
    descriptors. Nothing is removed from another mount.
    """
    stuck, mount = {keep}, mount_of(folder)
    while names := [name for name in os.listdir(folder) if name not in stuck]:
        for name in names:
            try:
                if not _removed(name, folder):
                    _move_up(name, folder, mount)
            except OSError as error:
                stuck.add(name)
                busy = error.errno in (errno.EBUSY, errno.EXDEV)
                left.append(f"{path}/{name}: {MOUNTED if busy else reason(error)}")


def _move_up(name: str, folder: int, mount: bytes) -> None:
    """Removes what is in a subfolder, or moves it up. What refuses does not keep the rest."""
    inner, refused = os.open(name, FOLDER, dir_fd=folder), None
    try:
        if mount_of(inner) != mount:
            raise OSError(errno.EXDEV, MOUNTED)
        for each in os.listdir(inner):
            try:
                if not _removed(each, inner):
                    unique = os.urandom(8).hex()
                    os.rename(each, unique, src_dir_fd=inner, dst_dir_fd=folder)
            except OSError as error:
                refused = error
    finally:
        os.close(inner)
    if refused is not None:
        raise refused


def _removed(name: str, folder: int) -> bool:
    """Whether an entry is gone now; false for a folder that is not empty."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except (IsADirectoryError, PermissionError) as refused:
        try:
            os.rmdir(name, dir_fd=folder)
        except NotADirectoryError:
            raise refused from None
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise
            return error.errno == errno.ENOENT
    return True
