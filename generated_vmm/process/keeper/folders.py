"""The folders of monitors: private to one user, locked by one keeper, and found again.

A folder is made beside its place with its record inside, and moved there; at the end it is moved
away before its record goes. So a folder in its place always has a record. Each has a symbolic link
in a folder of the system, for `list` and `clean`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from generated_vmm.process.keeper.kernel import FOLDER, Refused, identity, lock
from generated_vmm.process.keeper.record import NEW_RECORD, RECORD, Record, write_record

MOST_LINKS = 40  # that the kernel follows (path_resolution(7))
WRITABLE = stat.S_IWGRP | stat.S_IWOTH
READABLE = stat.S_IRGRP | stat.S_IROTH
REGISTRY = "generated-vmm"
TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.ENOENT)
ASIDE = ".generated-vmm-"
# The mark of a folder above jails: sticky, which has no effect where others cannot write.
MADE, MARKED = stat.S_ISVTX | 0o711, stat.S_ISVTX | 0o066


def open_private(path: str) -> int:
    """The descriptor of a folder that only this user can change. Raises `Refused`, OSError."""
    require_trusted_path(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        require_private(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_folder(record: Record, mode: int) -> int | None:
    """Makes a folder with its record in it; its locked descriptor, or None if the path is taken.

    Raises OSError.
    """
    parent, name = os.path.split(record.path)
    aside = f"{parent}/.{name}{ASIDE}{os.urandom(8).hex()}"
    os.mkdir(aside, 0o700)
    folder = None
    try:
        folder = os.open(aside, FOLDER)
        if not lock(folder):  # another keeper takes it for left behind
            return None
        record.made, record.entry = True, entry_of(os.fstat(folder))
        write_record(folder, record)
        os.fchmod(folder, mode)
        enter(record.entry, record.path)
        if not os.path.lexists(record.path):
            os.rename(aside, record.path)
            return folder
    except BaseException as error:
        _discard(aside, folder)
        if isinstance(error, OSError) and error.errno in TAKEN:
            return None
        raise
    _discard(aside, folder)
    return None


def _discard(aside: str, folder: int | None) -> None:
    """Removes a folder that was never moved to its place."""
    if folder is not None:
        _leave(entry_of(os.fstat(folder)), None)
        for name in (NEW_RECORD, RECORD):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
        os.close(folder)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(aside)


def sweep(path: str) -> bool:
    """Removes what keepers that died in between have left beside a folder's place."""
    parent, name = os.path.split(path)
    found = False
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for each in (found.name for found in os.scandir(parent)):
            if each.startswith(f".{name}{ASIDE}"):
                with contextlib.suppress(OSError):  # another sweeps too, or it is no such folder
                    folder = os.open(f"{parent}/{each}", FOLDER)
                    if os.fstat(folder).st_uid == os.geteuid() and lock(folder):
                        found = True
                        _discard(f"{parent}/{each}", folder)
                    else:
                        os.close(folder)
    return found


def remove_folder(place: tuple[Record, int]) -> None:
    """Removes the record, and the folder and those above it if keepers have made them."""
    record, folder = place
    parent, name = os.path.split(record.path)
    with contextlib.suppress(FileNotFoundError):
        if record.made and identity(record.path) == identity(folder):
            others = set(os.listdir(folder)) - {RECORD, NEW_RECORD}
            if not others:
                aside = f"{parent}/.{name}{ASIDE}{os.urandom(8).hex()}"
                os.rename(record.path, aside)
                _discard(aside, os.dup(folder))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(RECORD, dir_fd=folder)
    _leave(record.entry, record.path)
    if record.jailed:
        remove_parents(record.path)


def remove_parents(path: str) -> None:
    """Removes the folders above a path that keepers have made, if they are empty."""
    with contextlib.suppress(OSError):  # the first that is not
        while _is_marked(path := os.path.dirname(path)):
            os.rmdir(path)


def _is_marked(path: str) -> bool:
    found = os.lstat(path)
    is_marked = found.st_mode & MARKED == stat.S_ISVTX and stat.S_ISDIR(found.st_mode)
    return is_marked and found.st_uid == os.geteuid()


def make_parents(path: str, *, private: bool) -> None:
    """Makes missing folders above a path, with the mark by which the last monitor removes them."""
    names = path.split("/")
    for parent in ("/".join(names[:number]) for number in range(2, len(names))):
        if private:  # others may change what is above it
            require_trusted_path(parent)
        with contextlib.suppress(FileExistsError):
            if not os.path.lexists(parent):
                os.mkdir(parent, MADE)


def require_private(path: str, found: os.stat_result) -> None:
    """Raises `Refused` unless only this user can change the content of a folder."""
    if found.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & WRITABLE:
        mode = stat.S_IMODE(found.st_mode)
        raise Refused(f"{path} can be changed by others (mode {mode:o}): chmod go-w")


def require_unreadable(path: str, found: os.stat_result) -> None:
    """Raises `Refused` if others can read a folder: whoever can may lock it."""
    if found.st_mode & READABLE:
        mode = stat.S_IMODE(found.st_mode)
        raise Refused(f"{path} can be locked by others (mode {mode:o}): chmod go-r")


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
    folder, left, links = "/", path.split("/")[:0:-1], 0
    yield folder
    while left:
        step = os.path.normpath(os.path.join(folder, left.pop()))
        if os.path.islink(step) and links < MOST_LINKS:
            yield step
            target, links = os.readlink(step), links + 1
            left += filter(None, target.split("/")[::-1])
            folder = "/" if target.startswith("/") else folder
        elif left:
            yield step
            folder = step


# A link to each folder. It only says where to look: the folder behind it is checked like any other.


def entry_of(folder: os.stat_result) -> str:
    """The link for a folder; empty if there is no place for links."""
    for registry in registries():
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileExistsError):
                os.mkdir(registry, 0o700)
            if _is_private(registry):
                return f"{registry}/{folder.st_dev}-{folder.st_ino}"
    return ""


def enter(entry: str, path: str) -> None:
    """Creates the link. Without it a monitor runs too, but is not listed."""
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(entry)
        os.symlink(path, entry)


def _leave(entry: str, path: str | None) -> None:
    with contextlib.suppress(OSError):
        if path is None or os.readlink(entry) == path:
            os.unlink(entry)


def known_folders() -> Iterator[tuple[str, str]]:
    """The links, and their folders."""
    for registry in registries():
        with contextlib.suppress(OSError):
            if _is_private(registry):
                for name in sorted(os.listdir(registry)):
                    entry = f"{registry}/{name}"
                    yield entry, os.readlink(entry)


def registries() -> list[str]:
    """The folders that may contain links; the system empties them when the host starts."""
    uid = os.geteuid()
    systems = [f"/run/{REGISTRY}"] if uid == 0 else []
    return [*systems, f"/run/user/{uid}/{REGISTRY}", f"/tmp/{REGISTRY}-{uid}"]  # noqa: S108  # checked


def _is_private(registry: str) -> bool:
    found = os.lstat(registry)
    is_ours = found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return is_ours and stat.S_ISDIR(found.st_mode)
