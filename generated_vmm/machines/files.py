"""The disks of machines and snapshots: compared, copied, grown, taken over and removed."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from generated_vmm.machines.definition import OWN_DISKS, disks_of, with_files
from generated_vmm.machines.records import sync_folder
from generated_vmm.process.copying import copy_data, regular

if TYPE_CHECKING:
    from generated_vmm import FullVmConfiguration

MOST_ATTEMPTS = 100
"""To remove a folder in which another process works, too."""


def identity(path: Path) -> tuple[int, int] | None:
    """The file that a path leads to: its file system and number; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def with_own_disks(configuration: FullVmConfiguration, folder: Path) -> FullVmConfiguration:
    """The configuration with `disks/NAME` for a disk in the machine's folder, however it is named.

    Raises OSError.
    """
    own = {identity(path): f"{OWN_DISKS}{path.name}" for path in (folder / OWN_DISKS).iterdir()}
    own.pop(None, None)
    return with_files(configuration, lambda file: own.get(identity(folder / file.path), file.path))


def require_whole_disks(configuration: FullVmConfiguration, folder: Path) -> None:
    """Raises ValueError for a drive without a disk or a name, and for two of one name or file.

    Several disks may be one file that nobody writes to. Relative paths begin at `folder`.
    """
    drives = configuration.drives or []
    for drive in drives:
        if not (drive.path_on_host or drive.socket):
            raise ValueError(f"the drive {drive.drive_id} has no disk")
    names = Counter(drive.drive_id for drive in drives)
    names.update(pmem.id for pmem in configuration.pmem or [])
    if "" in names:
        raise ValueError("a disk has no name")
    for name, count in names.items():
        if count > 1:
            raise ValueError(f"there are two disks called {name}")
    disks = [(identity(folder / one.path) or one.path, one) for one in disks_of(configuration)]
    written = {file for file, disk in disks if not disk.is_read_only}
    uses = Counter(file for file, _ in disks)
    for file, disk in disks:
        if file in written and uses[file] > 1:
            raise ValueError(f"two disks use {disk.path}, and one of them writes to it")


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


def grow_file(path: Path, size: int) -> int:
    """Makes a disk `size` bytes long, with zeros that use no blocks; returns its former length.

    Raises ValueError and OSError.
    """
    with open(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK), "r+b") as file:
        found = os.fstat(file.fileno())
        is_possible = found.st_size <= size < 1 << 63 and size % 512 == 0
        if not stat.S_ISREG(found.st_mode) or not is_possible:
            raise ValueError(
                f"a disk of {found.st_size} bytes cannot grow to {size} bytes, its whole length"
            )
        file.truncate(size)
        os.fsync(file.fileno())
    return found.st_size


def take_over(path: Path) -> None:
    """Makes this process's user the owner of a file that a jailed user has written."""
    with regular(path, os.O_NOFOLLOW) as file:
        os.fchown(file.number, os.geteuid(), os.getegid())
        os.fchmod(file.number, 0o600)
        os.fsync(file.number)


def remove(path: Path) -> None:
    """Removes a file, or a folder with everything in it; does nothing if there is none."""
    for left in reversed(range(MOST_ATTEMPTS)):
        if not os.path.lexists(path):
            return
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
            sync_folder(path.parent)
        except OSError as error:  # what does the work of a killed keeper removes and moves files
            if not left or error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise
