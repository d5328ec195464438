"""Removing what a record names. What cannot be removed does not keep the rest."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable

from generated_vmm.process.keeper import kernel
from generated_vmm.process.keeper.kernel import Any, Descriptor, Refused
from generated_vmm.process.keeper.messages import is_served
from generated_vmm.process.keeper.record import (
    INPUT,
    NAMES,
    NEW_RECORD,
    RECORD,
    UNRECORDED,
    Record,
    Socket,
    read_record,
    write_record,
)

GROUP_SECONDS = 2.0  # for its processes to end, and to be counted no more
MOST_REASONS = 8  # for what is left: a message has an end
AGAIN = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
MOUNTED = "something is mounted there"


def remove_leftover(folder: int, path: str, *, keeps_folder: bool) -> Record | None:
    """Ends the monitor of a dead keeper, whose folder is locked now, and removes what it names.

    Raises `Refused` if the processes cannot be seen from here, or if something remains.
    """
    with contextlib.suppress(FileNotFoundError, NotAFifo):
        fifo = open_fifo(INPUT, folder, os.O_RDWR | os.O_NONBLOCK)
        kernel.end_holders(fifo.number, path)
    record = read_record(folder, path)
    if record is not None:
        record.path, record.ended = path, None
        if left := remove(record, folder, keeps_folder=keeps_folder):
            raise Refused(f"some of what a monitor left could not be removed: {'; '.join(left)}")
    return record


class NotAFifo(OSError):
    """Something else has the name of a fifo: the user of a jail may have put it there."""


def open_fifo(name: str, folder: int, flags: int) -> Descriptor:
    """A fifo in a folder. Raises `NotAFifo`, OSError."""
    try:
        found = Descriptor(os.open, name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    else:
        if stat.S_ISFIFO(os.fstat(found.number).st_mode):
            return found
    raise NotAFifo(f"{name} is no fifo")


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
        is_gone(_remove_folder, (record, folder), left)
    elif left or record.ended is not None:
        with contextlib.suppress(OSError):  # the record before says more than there is
            write_record(folder, record)
    return (
        left if len(left) <= MOST_REASONS else [*left[:MOST_REASONS], f"{len(left)} things in all"]
    )


def is_gone(removal: Callable[[Any], object], what: Any, left: list[str]) -> bool:
    """Whether it could be removed; if not, the list gets the reason."""
    try:
        removal(what)
        return True
    except OSError as error:
        named = error.filename if isinstance(error.filename, str) else ""
        left.append(f"{named}: {kernel.reason(error)}")
        return False


def _remove_folder(place: tuple[Record, int]) -> None:
    """Removes the record, and the folder if a keeper has made it and nothing else is in it."""
    record, folder = place
    is_to_go = record.made and not set(os.listdir(folder)) - {RECORD}
    if is_to_go:
        os.fchmod(folder, UNRECORDED)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(RECORD, dir_fd=folder)
    with contextlib.suppress(FileNotFoundError):
        if is_to_go and kernel.identity(record.path) == kernel.identity(folder):
            os.rmdir(record.path)


def _remove_group(path: str) -> None:
    """Removes a control group whose processes have ended. The group above it stays."""
    deadline = time.monotonic() + GROUP_SECONDS
    with contextlib.suppress(FileNotFoundError):
        while True:  # ended processes are counted for some time
            try:
                return os.rmdir(path)
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
                time.sleep(kernel.PAUSE)


def _remove_socket(noted: Socket) -> None:
    """Removes a socket if folder and name still lead to it."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        folder = Descriptor(os.open, noted.folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        found = os.stat(noted.name, dir_fd=folder.number, follow_symlinks=False)
        is_ours = kernel.identity(folder.number) == noted.folder_id and stat.S_ISSOCK(found.st_mode)
        if noted.id is None:  # the keeper has not seen it listen
            is_ours &= not is_served(f"/proc/self/fd/{folder.number}/{noted.name}")
        if is_ours and noted.id in (None, [found.st_dev, found.st_ino]):
            os.unlink(noted.name, dir_fd=folder.number)


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
    mount = kernel.mount_of(folder)
    for is_last in (False, True):  # on a full disk, what is removed first makes room for a move
        stuck = {keep}
        while names := [name for name in os.listdir(folder) if name not in stuck]:
            for name in names:
                try:
                    if not _removed(name, folder):
                        _move_up(name, folder, mount)
                except OSError as error:
                    stuck.add(name)
                    if is_last:
                        busy = error.errno in (errno.EBUSY, errno.EXDEV)
                        left.append(f"{path}/{name}: {MOUNTED if busy else kernel.reason(error)}")


def _move_up(name: str, folder: int, mount: bytes) -> None:
    """Removes what is in a subfolder, or moves it up. What refuses does not keep the rest."""
    inner, refused = Descriptor(os.open, name, kernel.FOLDER, dir_fd=folder), 0
    if kernel.mount_of(inner.number) != mount:
        raise OSError(errno.EXDEV, MOUNTED)
    for each in os.listdir(inner.number):
        try:
            if not _removed(each, inner.number):
                unique = os.urandom(8).hex()
                os.rename(each, unique, src_dir_fd=inner.number, dst_dir_fd=folder)
        except OSError as error:
            refused = error.errno or 0
    if refused:
        raise OSError(refused, os.strerror(refused))


def _removed(name: str, folder: int) -> bool:
    """Whether an entry is gone now; false for a folder that is not empty, or swapped meanwhile."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        (os.rmdir if stat.S_ISDIR(mode) else os.unlink)(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in AGAIN:
            raise
        return error.errno == errno.ENOENT
    return True
