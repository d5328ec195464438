"""The files of a jail: their paths on both sides, and copying and linking them in.

The jailed monitor owns its root: it may have created links there, and may swap names at any time.
So files are opened step by step from the root's descriptor, and changed through descriptors.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from generated_vmm.process.settings import HostPath

Progress: TypeAlias = Callable[[int, int], object]
"""Called with the number of copied bytes and of all bytes."""

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
SOURCE = os.O_RDONLY | os.O_NONBLOCK
FICLONE = 0x40049409  # ioctl_ficlonerange(2): shares the blocks, if the file system can
COPIED_AT_ONCE = 16 << 20


def inside(root: Path, path: HostPath) -> str:
    """A path of the host as the monitor sees it. Raises ValueError for one outside of the jail."""
    relative = os.path.relpath(os.path.abspath(path), root)
    if relative == os.pardir or relative.startswith(os.pardir + os.sep):
        raise ValueError(f"{os.fspath(path)} is not in the jail {root}")
    return os.path.normpath(f"/{relative}")


def normal(path: HostPath) -> str:
    """A path as the monitor sees it, without `..`."""
    return os.path.normpath("/" + os.fspath(path).lstrip("/"))


@contextlib.contextmanager
def folder_of(root: int, path: str, owner: tuple[int, int] | None = None) -> Iterator[int]:
    """Opens the parent folder of a path inside; creates missing folders if there is an owner.

    Raises OSError if a step is a link.
    """
    folder = os.dup(root)
    try:
        for name in os.path.dirname(normal(path)).split("/"):
            if name:
                inner = _step(folder, name, owner)
                os.close(folder)
                folder = inner
        yield folder
    finally:
        os.close(folder)


def _step(folder: int, name: str, owner: tuple[int, int] | None) -> int:
    made = False
    if owner is not None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
            made = True
    inner = os.open(name, FOLDER, dir_fd=folder)
    if made and owner is not None and os.fstat(inner).st_uid == os.geteuid():
        os.fchown(inner, *owner)
    return inner


def target_of(source: HostPath, path: HostPath | None) -> str:
    """The path inside for a file that is brought in: `/` and its own name by default."""
    return normal(os.path.basename(os.fspath(source)) if path is None else path)


def copy_in(
    root: int,
    source: HostPath,
    path: str,
    owner: tuple[int, int],
    progress: Progress | None,
    require_wanted: Callable[[], None],
) -> None:
    """Copies a regular file to a path inside, where only its owner may use it.

    `require_wanted` is called between the parts of a copy, and raises to end it. A copy that fails
    is removed.
    """
    with folder_of(root, path, owner) as folder, _regular(source, SOURCE) as original:
        name = os.path.basename(path)
        copy = os.open(name, NEW_FILE, 0o600, dir_fd=folder)
        try:
            _copy_data(original, copy, progress or (lambda *_: None), require_wanted)
            os.fchown(copy, *owner)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise
        finally:
            os.close(copy)


def link_in(root: int, source: HostPath, path: str, owner: tuple[int, int], *, give: bool) -> None:
    """Creates a hard link to a regular file at a path inside; `give` changes the file's owner."""
    with folder_of(root, path, owner) as folder, _regular(source, SOURCE | os.O_NOFOLLOW) as file:
        name = os.path.basename(path)
        os.link(f"/proc/self/fd/{file}", name, dst_dir_fd=folder, follow_symlinks=True)
        if give:
            os.fchown(file, *owner)


@contextlib.contextmanager
def _regular(path: HostPath, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{os.fspath(path)} is no regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def _copy_data(
    source: int, copy: int, progress: Progress, require_wanted: Callable[[], None]
) -> None:
    size = os.fstat(source).st_size
    if not _shares_blocks(source, copy):
        os.ftruncate(copy, size)
        for begin, end in _data(source, size):
            os.lseek(copy, begin, os.SEEK_SET)
            while begin < end:
                require_wanted()
                sent = os.sendfile(copy, source, begin, min(end - begin, COPIED_AT_ONCE))
                if not sent:  # the file has become shorter
                    break
                begin += sent
                progress(begin, size)
    progress(size, size)


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
