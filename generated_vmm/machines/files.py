"""Copies of disks: with shared blocks where the file system can, else with their holes."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from pathlib import Path
from typing import Final

from generated_vmm.machines.records import sync_folder

FICLONE: Final = 0x40049409
"""ioctl of Linux 4.5: the target shares the blocks of the source (ioctl_ficlone(2))."""
CHUNK_BYTES: Final = 1 << 26


def open_file(path: Path) -> int:
    """A descriptor of an ordinary file. Raises ValueError for anything else, and OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is no ordinary file")
    return descriptor


def identity(path: Path) -> tuple[int, int] | None:
    """The file that a path leads to: its file system and number; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def copy_file(source: Path, target: Path) -> None:
    """Copies a file to a new one, which only its owner may read, and waits for the disk.

    Raises ValueError for a source that is no ordinary file, and OSError; then there is no target.
    """
    origin = open_file(source)
    try:
        copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            _copy(origin, copy)
            os.fsync(copy)
        except BaseException:
            os.unlink(target)
            raise
        finally:
            os.close(copy)
    finally:
        os.close(origin)


def _copy(origin: int, copy: int) -> None:
    try:
        fcntl.ioctl(copy, FICLONE, origin)
        return
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
    size = os.fstat(origin).st_size
    os.ftruncate(copy, size)
    at = 0
    while (begin := _seek(origin, at, os.SEEK_DATA, size)) < size:
        at = _seek(origin, begin, os.SEEK_HOLE, size)
        _copy_range(origin, copy, begin, at)


def _seek(origin: int, at: int, whence: int, size: int) -> int:
    try:
        return os.lseek(origin, at, whence)
    except OSError as error:
        if error.errno != errno.ENXIO:  # there is no data after this place
            raise
        return size


def _copy_range(origin: int, copy: int, begin: int, end: int) -> None:
    os.lseek(copy, begin, os.SEEK_SET)
    while begin < end:
        sent = os.sendfile(copy, origin, begin, min(end - begin, CHUNK_BYTES))
        if not sent:
            raise OSError(errno.EIO, "a disk became shorter while it was copied")
        begin += sent


def grow_file(path: Path, size: int) -> None:
    """Makes a disk longer, with zeros that use no blocks. Raises ValueError and OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or size <= found.st_size or size % 512:
            raise ValueError(f"a disk of {found.st_size} bytes cannot grow to {size}")
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def take_over(path: Path) -> None:
    """Makes this process's user the owner of a file that a jailed user has written."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fchown(descriptor, os.geteuid(), os.getegid())
        os.fchmod(descriptor, 0o600)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(folder: Path) -> None:
    """Removes a folder and everything in it; does nothing if there is none. Raises OSError."""
    if os.path.lexists(folder):
        shutil.rmtree(folder)
        sync_folder(folder.parent)
