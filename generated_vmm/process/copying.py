"""Copies of files: with shared blocks where the file system can, else with their holes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from typing import TypeAlias

from generated_vmm.process.keeper.kernel import Descriptor
from generated_vmm.process.settings import HostPath

Progress: TypeAlias = Callable[[int, int], object]
"""Called with the number of copied bytes and of all bytes."""

FICLONE = 0x40049409  # ioctl_ficlonerange(2): shares the blocks, if the file system can
COPIED_AT_ONCE = 16 << 20


def regular(path: HostPath, flags: int = 0) -> Descriptor:
    """A regular file for reading. Raises ValueError for anything else, and OSError."""
    found = Descriptor(os.open, path, os.O_RDONLY | os.O_NONBLOCK | flags)
    if not stat.S_ISREG(os.fstat(found.number).st_mode):
        raise ValueError(f"{os.fspath(path)} is no regular file")
    return found


def copy_data(source: int, copy: int) -> Iterator[tuple[int, int]]:
    """Copies the content of a file to an empty one. Raises OSError.

    Yields the number of copied bytes and of all bytes after each part. Both files share their
    blocks where the file system can do that. Elsewhere, holes of the file are not filled.
    """
    size = os.fstat(source).st_size
    if not _shares_blocks(source, copy):
        os.ftruncate(copy, size)
        for begin, end in _data(source, size):
            os.lseek(copy, begin, os.SEEK_SET)
            while begin < end:
                sent = os.sendfile(copy, source, begin, min(end - begin, COPIED_AT_ONCE))
                if not sent:  # the file has become shorter
                    break
                begin += sent
                yield begin, size
    yield size, size


def _shares_blocks(source: int, copy: int) -> bool:
    with contextlib.suppress(OSError):
        fcntl.ioctl(copy, FICLONE, source)
        return True
    return False


def _data(source: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that are not holes."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(source, end, os.SEEK_DATA)
        except OSError:  # ENXIO: only holes up to the end
            return
        end = os.lseek(source, begin, os.SEEK_HOLE)
        yield begin, end
