"""Removing what is left of a monitor whose keeper has died."""

from __future__ import annotations

import contextlib
import os
import stat

from generated_vmm.process.keeper.folders import entry_of, open_private, remove_parents
from generated_vmm.process.keeper.kernel import Refused, end_holders, lock
from generated_vmm.process.keeper.record import INPUT, Record, read_record
from generated_vmm.process.keeper.removal import remove


def open_input(folder: int) -> int | None:
    """The fifo of the guest's input in a folder; None if there is none."""
    with contextlib.suppress(OSError):
        found = os.open(INPUT, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=folder)
        if stat.S_ISFIFO(os.fstat(found).st_mode):
            return found
        os.close(found)
    return None


def remove_leftover(folder: int, path: str, *, keeps_folder: bool) -> Record | None:
    """Ends the monitor of a dead keeper, whose folder is locked now, and removes what it names.

    Raises `Refused` if the processes cannot be seen from here, or if something remains.
    """
    fifo = open_input(folder)
    if fifo is not None:
        try:
            end_holders(fifo, path)
        finally:
            os.close(fifo)
    record = read_record(folder, path)
    if record is not None:
        record.path, record.ended = path, None
        record.entry = record.entry or entry_of(os.fstat(folder))
        if left := remove(record, folder, keeps_folder=keeps_folder):
            raise Refused(f"some of what a monitor left could not be removed: {'; '.join(left)}")
    return record


def recover(path: str) -> None:
    """Removes what a keeper has left that was killed. Raises `Refused`, OSError."""
    remove_parents(path)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        folder = open_private(path)
        try:
            if lock(folder):
                remove_leftover(folder, path, keeps_folder=False)
        finally:
            os.close(folder)
