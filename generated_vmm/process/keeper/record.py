"""What a caller orders, the record of a monitor in its folder, and removing what that names.

The keeper writes the record. If the keeper has died, a new keeper or `clean` removes what it names.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from generated_vmm.process.keeper import kernel
from generated_vmm.process.keeper.kernel import Any, Descriptor, Refused
from generated_vmm.process.keeper.messages import KEEPER

RECORD, NEW_RECORD = "monitor.json", "monitor.new"
SOCKET, LOG, METRICS = "api.socket", "log", "metrics"
INPUT, OUTPUT = "console.in", "console.out"
GIVEN_FOLDER = 3  # the descriptor of its folder in a monitor, if the socket's path is too long
NAMES = (KEEPER, SOCKET, INPUT, OUTPUT, LOG, METRICS)
"""What an unjailed monitor has in its folder. A lock on INPUT: keeper or monitor live."""
PRIVATE, OF_JAIL = 0o600, 0o400  # the mode says whether it is a jail: the host may lose the content
# The mode of a new folder. Where others cannot write, the sticky bit does nothing.
UNRECORDED = stat.S_ISVTX | 0o700
WRITABLE = stat.S_IWGRP | stat.S_IWOTH
GROUP_SECONDS = 2.0  # for its processes to end, and to be counted no more
MOST_REASONS = 8  # for what is left: a message has an end
AGAIN = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
MOUNTED = "something is mounted there"
in_json = json.JSONEncoder(default=vars).encode


# Plain classes: `dataclasses` imports so much that each keeper has 0.1 MiB more of its own.


class Socket:
    """A unix socket outside of the monitor's folder: its folder, its name and both identities."""

    def __init__(self, folder: str, folder_id: list[int], name: str, id: list[int]) -> None:
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

    `inherits` says whether the monitor gets its folder as GIVEN_FOLDER. `user` is the monitor's
    user and group. With `new_pid_ns`, the program's child takes its place.
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
        inherits: bool = False,
        new_pid_ns: bool = False,
    ) -> None:
        self.record, self.user = record, user
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
                jailed = mode == OF_JAIL  # the host has lost the rest
                return Record(path, None, {}, jailed=jailed, made=jailed)
            return _record_of(json.loads(content))
    except FileNotFoundError:
        is_begun = is_unrecorded(os.fstat(folder))
        return Record(path, None, {}, jailed=False, made=True) if is_begun else None
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise Refused(f"the {RECORD} in {path} cannot be read: {error}") from error


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
    """Raises `Refused` if another user can exchange a folder or a link above a path, or a link at
    it. What does not exist yet is not checked. Raises OSError for links in a circle.
    """
    names = path.split("/")
    steps = ["/".join(names[:number]) or "/" for number in range(1, len(names))]
    with contextlib.suppress(FileNotFoundError):
        for step in [*steps, path] if os.path.islink(path) else steps:
            found = os.lstat(step)
            mode, leads = stat.S_IMODE(found.st_mode), f"{step} leads to a monitor's folder"
            if found.st_uid not in (0, os.geteuid()):
                raise Refused(f"{leads} and belongs to user {found.st_uid}")
            if stat.S_ISDIR(found.st_mode) and mode & WRITABLE and not mode & stat.S_ISVTX:
                raise Refused(f"{leads} and can be changed by others (mode {mode:o}): chmod go-w")
            if stat.S_ISLNK(found.st_mode):
                os.stat(step)  # a circle has an end here
                target = os.path.join(os.path.dirname(step), os.readlink(step))
                require_trusted_path(f"{target}/.")


# Removing what a record names. What cannot be removed does not keep the rest.


def remove_leftover(folder: int, path: str, *, keeps_folder: bool) -> Record | None:
    """Ends the monitor of a dead keeper, whose folder is locked now, and removes what it names.

    Raises `Refused` if the processes cannot be seen from here, or if something remains.
    """
    with contextlib.suppress(FileNotFoundError):
        fifo = open_fifo(INPUT, folder, os.O_RDWR | os.O_NONBLOCK)
        kernel.end_holders(fifo.number, path)
    record = read_record(folder, path)
    if record is not None:
        record.path, record.ended = path, None
        if left := remove(record, folder, keeps_folder=keeps_folder):
            raise Refused(f"some of what a monitor left could not be removed: {'; '.join(left)}")
    return record


def open_fifo(name: str, folder: int, flags: int) -> Descriptor:
    """A fifo in a folder. The user of a jail may have replaced it: OSError."""
    found = Descriptor(os.open, name, flags | os.O_NOFOLLOW, dir_fd=folder)
    if not stat.S_ISFIFO(os.fstat(found.number).st_mode):
        raise OSError(errno.EINVAL, f"{name} is no fifo")
    return found


def remove(record: Record, folder: int, *, keeps_folder: bool = False) -> list[str]:
    """Removes everything that a record names; the result says what could not be removed, and why.

    What is left stays in the record, and the folder with it. The processes have ended.
    """
    left: list[str] = []
    record.groups = [each for each in record.groups if not is_gone(left, _remove_group, each)]
    record.sockets = [each for each in record.sockets if not is_gone(left, _remove_socket, each)]
    if record.jailed:
        remove_entries(folder, RECORD, record.path, left)
    for name in (*NAMES, NEW_RECORD) if not record.jailed else ():
        is_gone(left, _remove_own, name, folder)
    if not left and not keeps_folder:
        is_gone(left, _remove_folder, record, folder)
    elif left or record.ended is not None:
        with contextlib.suppress(OSError):  # the record before says more than there is
            write_record(folder, record)
    more = [f"{len(left)} things in all"] if len(left) > MOST_REASONS else []
    return [*left[:MOST_REASONS], *more]


def is_gone(left: list[str], removal: Callable[..., object], *what: Any) -> bool:
    """Whether it could be removed; if not, the list gets the reason."""
    try:
        removal(*what)
        return True
    except OSError as error:
        named = error.filename if isinstance(error.filename, str) else ""
        left.append(f"{named}: {kernel.reason(error)}")
        return False


def _remove_folder(record: Record, folder: int) -> None:
    """Removes the record, and the folder if a keeper has made it and nothing else is in it."""
    is_to_go = record.made and not set(os.listdir(folder)) - {RECORD}
    if is_to_go:
        os.fchmod(folder, UNRECORDED)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(RECORD, dir_fd=folder)
    with contextlib.suppress(FileNotFoundError):
        if is_to_go and kernel.identity(record.path) == kernel.identity(folder):
            os.rmdir(record.path)


def _remove_group(path: str) -> None:
    """Removes a control group whose processes have ended. The group above it stays."""
    deadline = time.monotonic() + GROUP_SECONDS
    with contextlib.suppress(FileNotFoundError):
        while True:  # ended processes are counted for some time
            try:
                return os.rmdir(path)
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
                time.sleep(kernel.PAUSE)


def _remove_socket(noted: Socket) -> None:
    """Removes a socket if folder and name still lead to it."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        folder = Descriptor(os.open, noted.folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        found = os.stat(noted.name, dir_fd=folder.number, follow_symlinks=False)
        ids = kernel.identity(folder.number), [found.st_dev, found.st_ino]
        if ids == (noted.folder_id, noted.id) and stat.S_ISSOCK(found.st_mode):
            os.unlink(noted.name, dir_fd=folder.number)


def _remove_own(name: str, folder: int) -> None:
    """Removes a fifo or a socket of a monitor from its folder, or a record that was begun."""
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or name == NEW_RECORD:
            os.unlink(name, dir_fd=folder)


def remove_entries(folder: int, keep: str, path: str, left: list[str]) -> None:
    """Removes the content of a folder except `keep`, at any depth, without following links.

    Subfolders are moved up before they are emptied: a deep tree exhausts neither stack nor
    descriptors. Nothing is removed from another mount.
    """
    mount = kernel.mount_of(folder)
    for is_last in (False, True):  # on a full disk, what is removed first makes room for a move
        stuck = {keep}
        while names := [name for name in os.listdir(folder) if name not in stuck]:
            for name in names:
                try:
                    if not _removed(name, folder):
                        _move_up(name, folder, mount)
                except OSError as error:
                    stuck.add(name)
                    if is_last:
                        busy = error.errno in (errno.EBUSY, errno.EXDEV)
                        left.append(f"{path}/{name}: {MOUNTED if busy else kernel.reason(error)}")


def _move_up(name: str, folder: int, mount: bytes) -> None:
    """Removes what is in a subfolder, or moves it up. What refuses does not keep the rest."""
    inner, refused = Descriptor(os.open, name, kernel.FOLDER, dir_fd=folder), 0
    if kernel.mount_of(inner.number) != mount:
        raise OSError(errno.EXDEV, MOUNTED)
    for each in os.listdir(inner.number):
        try:
            if not _removed(each, inner.number):
                unique = os.urandom(8).hex()
                os.rename(each, unique, src_dir_fd=inner.number, dst_dir_fd=folder)
        except OSError as error:
            refused = error.errno or 0
    if refused:
        raise OSError(refused, os.strerror(refused))


def _removed(name: str, folder: int) -> bool:
    """Whether an entry is gone now; false for a folder that is not empty, or swapped meanwhile."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        (os.rmdir if stat.S_ISDIR(mode) else os.unlink)(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in AGAIN:
            raise
        return error.errno == errno.ENOENT
    return True
