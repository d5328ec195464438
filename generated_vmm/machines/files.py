"""The disks of machines and snapshots: copied, grown, taken over and removed."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from generated_vmm.machines.records import sync_folder
from generated_vmm.process.copying import copy_data, regular


def identity(path: Path) -> tuple[int, int] | None:
    """The file that a path leads to: its file system and number; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def copy_file(source: Path, target: Path) -> None:
    """Copies a file to a new one, which only its owner may read, and waits for the disk.

    Raises ValueError for a source that is no regular file, and OSError.
    """
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with regular(source) as origin, open(os.open(target, new, 0o600), "wb") as copy:
        for _ in copy_data(origin.number, copy.fileno()):
            pass
        os.fsync(copy.fileno())
    sync_folder(target.parent)


def grow_file(path: Path, size: int) -> None:
    """Makes a disk longer, with zeros that use no blocks. Raises ValueError and OSError."""
    with open(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK), "r+b") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or size <= found.st_size or size % 512:
            raise ValueError(f"a disk of {found.st_size} bytes cannot grow to {size}")
        file.truncate(size)
        os.fsync(file.fileno())


def take_over(path: Path) -> None:
    """Makes this process's user the owner of a file that a jailed user has written."""
    with regular(path, os.O_NOFOLLOW) as file:
        os.fchown(file.number, os.geteuid(), os.getegid())
        os.fchmod(file.number, 0o600)
        os.fsync(file.number)


def remove(path: Path) -> None:
    """Removes a file, or a folder with everything in it; does nothing if there is none."""
    while os.path.lexists(path):
        with suppress(FileNotFoundError):  # what does the work of a killed keeper was faster
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
            sync_folder(path.parent)
