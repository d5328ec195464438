"""Files of the console's folders for a machine in a jail, where they have the same paths."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from generated_vmm.process import AsyncJailedMonitor

FIRST_UID = 0x70000000
"""From here on no distribution has users: https://systemd.io/UIDS-GIDS/."""


async def bring_in(jail: AsyncJailedMonitor, source: Path, path: str, uid: int | None) -> None:
    """Link a file in at `path`; the jail's user `uid` may write to it, and without one read it.

    Raises ValueError. A file that is there already stays.
    """
    try:
        with suppress(FileExistsError):
            if _may_be_linked(jail, source, uid):
                await jail.link_in(source, path)
            else:
                await jail.copy_in(source, path)
    except OSError as error:
        raise ValueError(f"The jail cannot have this file: {error.strerror}.") from error


def _may_be_linked(jail: AsyncJailedMonitor, source: Path, uid: int | None) -> bool:
    """Whether the jail's user can open a link; a file of another file system has none."""
    if uid is not None:
        give(source, uid)
        return True
    found = source.stat()
    return bool(found.st_mode & stat.S_IROTH) and found.st_dev == jail.root.stat().st_dev


def give(path: Path, uid: int) -> None:
    """Make a user the owner of a file; 0 is this console's, whose files all jails may read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("This is no file.")
        os.fchown(descriptor, uid, uid)
        os.fchmod(descriptor, 0o600 if uid else 0o644)
    finally:
        os.close(descriptor)
