"""What a caller orders, and the record of a monitor in its folder: what has to be removed.

The keeper writes the record. If the keeper has died, a new keeper or `clean` removes what it names.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence

from generated_vmm.process.keeper.kernel import Any, Descriptor, Refused

RECORD, NEW_RECORD = "monitor.json", "monitor.new"
KEEPER, SOCKET, LOG, METRICS = "keeper.socket", "api.socket", "log", "metrics"
INPUT, OUTPUT = "console.in", "console.out"
GIVEN_FOLDER = 3  # the descriptor of the socket's folder in a monitor, if its path is too long
NAMES = (KEEPER, SOCKET, INPUT, OUTPUT, LOG, METRICS)
"""What an unjailed monitor has in its folder. A lock on INPUT: keeper or monitor live."""
PRIVATE, OF_JAIL = 0o600, 0o400  # the mode says whether it is a jail: the host may lose the content
# The mode of a new folder. Where others cannot write, the sticky bit does nothing.
UNRECORDED = stat.S_ISVTX | 0o700
WRITABLE = stat.S_IWGRP | stat.S_IWOTH
MOST_LINKS = 40  # that the kernel follows (path_resolution(7))
in_json = json.JSONEncoder(default=vars).encode


# Plain classes: `dataclasses` imports so much that each keeper has 0.1 MiB more of its own.


class Socket:
    """A unix socket outside of the monitor's folder: its folder, its name and both identities.

    `id` is None until the keeper has seen the socket listen.
    """

    def __init__(
        self, folder: str, folder_id: list[int], name: str, id: list[int] | None = None
    ) -> None:
        self.folder, self.folder_id, self.name, self.id = folder, folder_id, name, id


class Record:
    """What a monitor has on the host.

    All that is in the folder belongs to a `jailed` monitor, of an unjailed one only NAMES. The
    folder is removed if a keeper has `made` it. `how` describes the monitor to its next owner. A
    detached monitor without an owner has `ended` with this status. `groups` are the control groups
    that the jailer makes.
    """

    def __init__(
        self,
        path: str,
        id: str | None,
        how: dict[str, Any],
        *,
        jailed: bool,
        groups: Iterable[str] = (),
        made: bool = False,
        sockets: Iterable[Socket] = (),
        ended: int | None = None,
    ) -> None:
        self.path, self.id, self.how, self.jailed, self.made = path, id, how, jailed, made
        self.groups, self.sockets, self.ended = [*groups], [*sockets], ended


class Order:
    """How a monitor is started.

    `socket` is the API's: folder and name; in a jail, the path below its root. `inherits` says
    whether the monitor gets that folder as GIVEN_FOLDER. `user` is the monitor's user and
    group. With `new_pid_ns`, the program's child takes its place.
    """

    def __init__(
        self,
        record: Record,
        *,
        user: tuple[int, int],
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        detached: bool,
        socket: tuple[str, str],
        inherits: bool = False,
        new_pid_ns: bool = False,
    ) -> None:
        self.record, self.user, self.socket = record, user, socket
        self.argv, self.env, self.cwd = argv, env, cwd
        self.detached = detached
        self.inherits, self.new_pid_ns = inherits, new_pid_ns


def write_record(folder: int, record: Record) -> None:
    """Writes the record in place of the one before. Raises OSError.

    It waits for the disk only for what a restart of the host leaves outside of the folder.
    """
    content = in_json(record).encode()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(NEW_RECORD, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    mode = OF_JAIL if record.jailed else PRIVATE
    file = Descriptor(os.open, NEW_RECORD, flags, mode, dir_fd=folder)
    if os.write(file.number, content) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if record.sockets:
        os.fsync(file.number)
    os.rename(NEW_RECORD, RECORD, src_dir_fd=folder, dst_dir_fd=folder)


def read_record(folder: int, path: str) -> Record | None:
    """The record in a folder; None if no keeper has had it.

    Raises `Refused` if it is invalid or other users can write to it.
    """
    try:
        with open(os.open(RECORD, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
                raise PermissionError(f"other users than {os.geteuid()} can write to it")
            content = file.read()
            mode = stat.S_IMODE(found.st_mode)
            if mode in (PRIVATE, OF_JAIL) and (b"\0" in content or not content):
                return _lost(path, jailed=mode == OF_JAIL, made=mode == OF_JAIL)
            return _record_of(json.loads(content))
    except FileNotFoundError:
        is_begun = is_unrecorded(os.fstat(folder))
        return _lost(path, jailed=False, made=True) if is_begun else None
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise Refused(f"the {RECORD} in {path} cannot be read: {error}") from error


def _lost(path: str, *, jailed: bool, made: bool) -> Record:
    """A record that was not written, or that the host lost: all that is left is in the folder."""
    return Record(path, None, {}, jailed=jailed, made=made)


def is_unrecorded(found: os.stat_result) -> bool:
    """Whether it is a folder that a keeper of this user has just made; an umask may take bits."""
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return is_ours and bool(found.st_mode & stat.S_ISVTX) and not found.st_mode & 0o077


def _record_of(content: Any) -> Record:
    found = Record(**content)
    found.sockets = [Socket(**each) for each in content["sockets"]]
    if (type(found.path), type(found.how)) != (str, dict):
        raise TypeError("it is not of a monitor")
    return found


# The folders of monitors: private to one user, locked by one keeper, and found again.


def open_private(path: str) -> Descriptor:
    """A folder that only this user can change. Raises `Refused`, OSError."""
    require_trusted_path(path)
    folder = Descriptor(os.open, path, os.O_RDONLY | os.O_DIRECTORY)
    require_private(path, os.fstat(folder.number))
    return folder


def require_private(path: str, found: os.stat_result) -> None:
    """Raises `Refused` unless only this user can change the content of a folder."""
    if found.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & WRITABLE:
        mode = stat.S_IMODE(found.st_mode)
        raise Refused(f"{path} can be changed by others (mode {mode:o}): chmod go-w")


def make_parents(path: str) -> None:
    """Makes the missing folders above a path, none where another user could exchange it."""
    names = path.split("/")
    for parent in ("/".join(names[:number]) for number in range(2, len(names))):
        require_trusted_path(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(parent, 0o711)


def require_trusted_path(path: str) -> None:
    """Raises `Refused` if another user can exchange a folder or a link above a path.

    What does not exist yet is not checked.
    """
    with contextlib.suppress(FileNotFoundError):
        for step in _steps_to(path):
            found = os.lstat(step)
            mode = stat.S_IMODE(found.st_mode)
            if found.st_uid not in (0, os.geteuid()):
                raise Refused(f"{step} belongs to user {found.st_uid}, and leads to {path}")
            if stat.S_ISDIR(found.st_mode) and mode & WRITABLE and not mode & stat.S_ISVTX:
                raise Refused(
                    f"{step} leads to {path} and can be changed by others (mode {mode:o}): "
                    "chmod go-w"
                )


def _steps_to(path: str) -> Iterator[str]:
    """The folders and links that lead to a path, the first ones first."""
    folder, left, links = "", path.split("/")[:0:-1], 0
    yield "/"
    while left:
        name = left.pop()
        step = f"{folder}/{name}"
        if name == "..":
            folder = folder.rpartition("/")[0]
        elif name in ("", "."):
            continue
        elif links < MOST_LINKS and (target := _target_of(step)):
            yield step
            links += 1
            left += filter(None, target.split("/")[::-1])
            folder = "" if target.startswith("/") else folder
        elif left:
            yield step
            folder = step


def _target_of(path: str) -> str:
    """Where a symbolic link leads to; empty for any other file."""
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return ""
