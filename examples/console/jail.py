"""The files of the host that a machine may use; in a jail they have the same paths."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from examples.console.library import Place
from generated_vmm.process import AsyncJailedMonitor

if TYPE_CHECKING:
    from examples.console.hosted import HostedMonitor

FIRST_UID = 0x70000000
"""Distributions use no ids from here on: https://systemd.io/UIDS-GIDS/."""


def require(machine: HostedMonitor, path: str, places: Sequence[Place], *, writes: bool) -> Path:
    """The resolved file. ValueError outside the folders, or if another machine needs it."""
    machine.house.library.require(path, places, machine.launch.directory(machine.name, 0))
    real = Path(path).resolve()
    for other in machine.house.hosted if "disks" in places else []:
        if other is not machine and other.kept.writes(real):
            raise ValueError(f"{other.name} writes to this disk: use a copy of it.")
        if other is not machine and writes and other.kept.uses(real):
            raise ValueError(f"{other.name} uses this disk: read it only, or use a copy.")
    return real


async def admit(
    machine: HostedMonitor, path: str, places: Sequence[Place], *, writes: bool, at: str | None
) -> None:
    """Give the machine access to a file, in a jail at the same path or `at` another.

    Raises ValueError as `require`; a jailed machine's own path is one in its jail.
    """
    if machine.jail and "machine" in places and not machine.house.library.has(path, places):
        return
    real = require(machine, path, places, writes=writes)
    if machine.jail:
        await bring_in(machine.jail, real, at or path, machine.kept.uid if writes else None)


async def admit_all(machine: HostedMonitor) -> None:
    """Give a jailed machine access to its files, after a check: its monitor may name any file."""
    for path in filter(None, machine.kept.files() if machine.jail else []):
        writes = machine.kept.writes(Path(path))
        places: Sequence[Place] = ("disks",) if writes else ("kernels", "disks")
        await admit(machine, path, places, writes=writes, at=None)


async def bring_in(jail: AsyncJailedMonitor, source: Path, path: str, uid: int | None) -> None:
    """Link a file in at `path`; the jail's user `uid` may write to it, and without one read it.

    Raises ValueError. An existing file stays.
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
    """Make a user the owner of a file; 0 is this console's user, whose files all jails may read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("This is no file.")
        os.fchown(descriptor, uid, uid)
        os.fchmod(descriptor, 0o600 if uid else 0o644)
