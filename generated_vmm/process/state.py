"""The record of a monitor in its folder, for other processes."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from generated_vmm.process.child import Child
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.removal import STARTED, fields_of, identity
from generated_vmm.process.things import (
    NEW_STATE,
    STATE,
    EmptyFolder,
    Folder,
    Session,
    Socket,
    Thing,
    Ward,
    from_json,
    remove_all,
)

ROOT = "root"  # of a jail
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
DEAD = (b"Z", b"X")  # states of a process that has ended (proc(5))

Identity: TypeAlias = tuple[int, int]
"""The number of a process, and when it was started: no other process has both."""


@dataclass(frozen=True)
class State:
    """The record of a monitor, for processes that find its folder.

    `owner` is the process that holds the folder, None after it has given it up. `process` is that
    of the monitor; `is_detached` says whether it may run without an owner.
    """

    boot_id: str
    owner: Identity | None
    how: dict[str, Any]
    things: list[Any]
    process: Identity | None = None
    is_detached: bool = False

    def child(self) -> Child | None:
        """The monitor's process, if it runs."""
        with contextlib.suppress(ProcessLookupError):
            if self.process is not None and self.living(self.process):
                return Child(*self.process)
        return None

    def living(self, process: Identity | None) -> int | None:
        """The number of a process of this record, the monitor's or the owner's, if it runs."""
        if process is None or self.boot_id != boot_id() or process != identity_of(process[0]):
            return None
        return process[0]

    def remove(self, descriptor: int, *, removes_folder: bool) -> None:
        """Removes what a dead owner left, and ends its process unless that is detached.

        Processes from before the host's last start are ignored: others may have their numbers.
        """
        ward: Ward = []
        for thing in map(from_json, self.things):
            if isinstance(thing, Folder):
                ward.append((replace(thing, made=thing.made and removes_folder), descriptor))
            elif isinstance(thing, EmptyFolder | Socket):
                ward.append((thing, None))
            elif self.boot_id == boot_id():
                ward.append((_in_folder(thing, descriptor), None))
        remove_all(ward)


def _in_folder(thing: Thing, folder: int) -> Thing:
    """The thing; a session without its root if that is gone: another folder may be that inode."""
    if isinstance(thing, Session) and thing.root is not None:
        with contextlib.suppress(FileNotFoundError):
            if identity(ROOT, folder) == thing.root:
                return thing
        return replace(thing, root=None)
    return thing


def identity_of(pid: int) -> Identity | None:
    """The unique mark of a process; None for one that has ended, even if it is a zombie."""
    fields = fields_of(pid)
    return None if fields is None or fields[0] in DEAD else (pid, int(fields[STARTED]))


def write_state(folder: int, state: State) -> None:
    """Writes the record of a monitor to its folder, atomically."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(NEW_STATE, dir_fd=folder)
        with open(os.open(NEW_STATE, flags, 0o600, dir_fd=folder), "w") as file:
            json.dump(vars(state), file)
        os.rename(NEW_STATE, STATE, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(NEW_STATE, dir_fd=folder)
        raise


def read_state(folder: int) -> State | None:
    """The record in a folder. Raises `MonitorError` if it is invalid or writable by others."""
    try:
        with open(os.open(STATE, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                raise PermissionError(f"other users than {os.geteuid()} can write to it")
            written = json.load(file)
        for name in ("owner", "process"):
            if written[name] is not None:
                pid, start_time = written[name]
                written[name] = (int(pid), int(start_time))
        _ = [from_json(each) for each in written["things"]], dict(written["how"])
        return State(**written)
    except FileNotFoundError:
        return None
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise MonitorError(f"the {STATE} of a monitor cannot be read: {error}") from error


def our_identity() -> Identity:
    """This process."""
    return cast(Identity, identity_of(os.getpid()))


def boot_id() -> str:
    """The unique mark of this start of the host."""
    return BOOT_ID.read_text().strip()
